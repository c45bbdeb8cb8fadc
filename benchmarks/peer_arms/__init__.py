"""The same work through other frameworks; `benchmarks.peers` runs each in its own environment."""
