"""The demo: bundled examples, every method on them by one local model, and what came out of it."""
