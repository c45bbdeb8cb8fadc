"""People rate texts in a browser.

Decides which text each rater is shown, keeps a durable journal, and writes the ratings in the
format that other commands read.

Raters see the same definitions and scales of the task as a judge does, and never a score, a
system's name or another rater's answer.
"""
