"""Evaluators that were fitted to human ratings, applied as methods."""
