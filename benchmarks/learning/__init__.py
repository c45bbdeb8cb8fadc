"""How well people's ratings are learned from recorded scores: `python -m benchmarks.learning`."""
