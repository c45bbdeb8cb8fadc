"""Persistence: the run folder, its journal and summary, and the store of answers."""
