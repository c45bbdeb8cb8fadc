"""Trains the embedded judge: a folder of texts in, a GGUF file out.

The package never imports this.
"""
