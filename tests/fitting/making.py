"""Rated examples whose making is known, as files."""

import json

from tests.learning.planted import planted


def rows_of(n=120, *, seed=0, per_group=6, **kept):
    """Rows with two human aspects on different scales and eight recorded judges, of which three
    carry them."""
    x, y, groups = planted(n, seed=seed, per_group=per_group)
    return [
        {
            "id": f"r{i}",
            "output": f"text {i}",
            "group": f"g{groups[i]}",
            "human": {"clarity": y[i, 0], "charm": y[i, 1]},
            "metrics": {
                f"judge-{j}/{'clarity' if j % 2 == 0 else 'charm'}": x[i, j]
                for j in range(x.shape[1])
            },
            **kept,
        }
        for i in range(n)
    ]


def write(path, rows):
    """Write rows as JSON Lines and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
