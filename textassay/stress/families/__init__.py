"""Families of edits, one a file; each is a tuple of `Edit`."""
