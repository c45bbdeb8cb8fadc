"""People rate texts in a browser.

What is shown to whom, a durable journal, and ratings in our format.

Raters see the task's own definitions and scales, which a judge sees too, and never a score, a
system's name or another rater's answer.
"""
