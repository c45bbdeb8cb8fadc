"""How often intervals hold the truth, and how often tests find what is not there.

A program (`python -m benchmarks.coverage`) and its designs, which tests draw from as well.
"""
