"""Learning an evaluator from people's ratings.

From recorded scores, or by HD-Eval's iterative alignment.
"""
