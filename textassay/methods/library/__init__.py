"""Files that users edit.

Tasks, trees of criteria, plans and profiles, each loaded from a TOML or JSON file.
"""
