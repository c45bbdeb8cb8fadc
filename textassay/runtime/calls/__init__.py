"""Wrappers around one model call: cache, single-flight, budget, retry, rate limit and timeout."""
