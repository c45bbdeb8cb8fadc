"""Graphs of one's own, each in a file that runs offline: `python -m examples.compose.jury`."""
