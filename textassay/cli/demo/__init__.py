"""The command `textassay demo`: what it prints while it runs and at its end."""
