"""Custom graphs, each in a file that runs offline: `python -m examples.compose.jury`."""
