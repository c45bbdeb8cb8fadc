"""How often intervals contain the truth, and how often tests raise false alarms.

A program (`python -m benchmarks.coverage`) and its designs, which tests use as well.
"""
