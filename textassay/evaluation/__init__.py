"""Runs a method over examples: the engine, the run, and `evaluate`, `stream`, `evaluate_sync`."""
