"""Models that run in this process, and what they share."""
