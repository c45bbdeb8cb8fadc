"""Reproduces the tables of the papers that textassay implements: `python -m reproduce`.

tables/*.toml    one published table each: columns, rows, the paper's figures
converters/      from the files that data sets are published in to textassay's format
table.py         the format of a table's file
datasets.py      finds the data of a table on this machine
scores.py        the scores behind a row: recorded, computed by a tool, or judged by a model
learned.py       rows that learn from ratings (HD-Eval)
agreement.py     from scores to the figures of a row
reproduction.py  a whole table
layout.py        the printed output
command.py       the command line
"""
