"""One module per command: its flags, help and examples.

They are imported whenever help is shown, so they import nothing heavy; a command imports what it
needs when it runs.
"""
