"""FED (Mehri and Eskenazi 2020): dialogues with Meena, Mitsuku and people, rated by five."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, means, read_json


def rows(turns: bool, files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rated turns, or over the rated dialogues; answers "N/A" are left out."""
    name = "fed_turn" if turns else "fed_dialog"
    content = read_json(files[0])
    dialogues = [one["context"] for one in content if "response" not in one]
    whole, number = 0, 0
    for one in content:
        is_turn = "response" in one
        if is_turn == turns:
            ratings = {
                aspect.lower().replace(" ", "_"): [
                    float(value) for value in given if isinstance(value, int | float)
                ]
                for aspect, given in one["annotations"].items()
            }
            yield {
                "id": f"{name}-{number:03}",
                "group": f"fed-{_dialogue(one['context'], dialogues, whole):03}",
                "system": one["system"],
                "source": one["context"],
                "output": one["response"] if turns else one["context"],
                "human": means(ratings),
                "annotators": ratings,
            }
            number += 1
        whole += 0 if is_turn else 1


def _dialogue(context: str, dialogues: Sequence[str], at: int) -> int:
    """Return the dialogue of each context: the file has a dialogue's turns before the dialogue."""
    # the dialogue that comes next in the file is tried first, since short contexts begin several
    # dialogues
    order: list[int] = [*range(at, len(dialogues)), *range(at)]
    return next(number for number in order if str(dialogues[number]).startswith(context))


_FILES = (
    OriginFile(
        "fed_data.json",
        "http://shikib.com/fed_data.json (or https://github.com/DSincerity/FED_Replication at"
        " f0a9a67)",
        "none stated",
        "69a608314d982e202c46a095ea99f4174332745b513034f6244f7551556e7e46",
    ),
)
FED_TURN = DataSet(
    "fed_turn", "turns of open-domain dialogues, 375 rows", _FILES, partial(rows, True)
)
FED_DIALOG = DataSet(
    "fed_dialog", "whole open-domain dialogues, 125 rows", _FILES, partial(rows, False)
)
