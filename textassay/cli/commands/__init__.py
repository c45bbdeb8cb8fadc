"""One module per command: its flags, help and examples.

Imported for every help, so nothing heavy here.

A command imports what it needs when it runs.
"""
