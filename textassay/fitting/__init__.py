"""Learning an evaluator from people's ratings: from recorded scores, or by HD-Eval's iterative alignment."""
