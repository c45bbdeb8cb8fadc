"""Readers of what judges write: ratings, labels, lists, joint answers and plans."""
