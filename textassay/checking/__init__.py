"""May a judge be trusted, and for what? The verdicts behind `textassay check`."""
