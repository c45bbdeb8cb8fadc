"""May a judge be trusted, and for what? Computes the verdicts of `textassay check`."""
