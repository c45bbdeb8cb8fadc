"""Backends: one module per kind of model."""
