"""Families of edits, one per file; each is a tuple of `Edit`."""
