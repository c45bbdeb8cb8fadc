"""Backends: one module per kind of model, and probes that find out what a model supports."""
