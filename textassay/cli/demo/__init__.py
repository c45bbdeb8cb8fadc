"""The command `textassay demo`: what it prints while it runs and when it ends."""
