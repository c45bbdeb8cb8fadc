"""Learning an evaluator from people's ratings: `fit` and `fit_sync`.

From recorded scores, by HD-Eval's iterative alignment, or as a rubric from few labels.
"""
