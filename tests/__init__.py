"""A package, so that no `tests` that a dependency installs can take its place."""
