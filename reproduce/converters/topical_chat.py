"""Topical-Chat as USR annotated it (Mehri and Eskenazi 2020), from USR's file or UniEval's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, means, read_json

GROUND_TRUTH = "Original Ground Truth"
USR_ASPECTS = {
    "Understandable": "understandability",
    "Natural": "naturalness",
    "Maintains Context": "coherence",
    "Engaging": "engagingness",
    "Uses Knowledge": "groundedness",
    "Overall": "overall",
}
"""The aspects, by UniEval's names of USR's questions."""


def rows(files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows; the reference is the original turn of the same dialogue."""
    content = read_json(files[0])
    # the layout distinguishes the two published files, since their names may have changed
    found = list(_usr(content) if "responses" in content[0] else _unieval(content))
    # neither file has references; the human turn of the same dialogue serves as one
    originals = {row["group"]: row["output"] for row in found if row["system"] == GROUND_TRUTH}
    for number, row in enumerate(found):
        reference = originals.get(row["group"])
        yield {
            "id": f"topical_chat-{number:03}",
            **row,
            "references": [] if reference is None else [reference],
        }


def _usr(content: Sequence[Json]) -> Iterator[Json]:
    for number, dialogue in enumerate(content):
        for response in dialogue["responses"]:
            ratings = {
                ours: [float(value) for value in response[theirs]]
                for theirs, ours in USR_ASPECTS.items()
            }
            yield {
                "group": f"tc-{number:02}",
                "system": response["model"].strip(),
                "source": dialogue["context"],
                "context": dialogue["fact"],
                "output": response["response"],
                "human": means(ratings),
                "annotators": ratings,
            }


def _unieval(content: Sequence[Json]) -> Iterator[Json]:
    groups: dict[tuple[str, str], str] = {}
    for line in content:
        key = (line["source"], line["context"])
        group = groups.setdefault(key, f"tc-{len(groups):02}")
        predicted = line.get("predict_scores", {})
        yield {
            "group": group,
            "system": line["system_id"],
            "source": line["source"],
            "context": line["context"],
            "output": line["system_output"],
            "human": line["scores"],
            "metrics": {f"unieval/{aspect}": score for aspect, score in predicted.items()},
        }


TOPICAL_CHAT = DataSet(
    "topical_chat",
    "turns of 60 dialogues by 6 systems, 360 rows",
    (
        OriginFile(
            "topical_chat_result.json",
            "https://github.com/maszhongming/UniEval at d33e7b6,"
            " reproduce/unieval_predict/dialogue/"
            " (or topical_chat.json of reproduce/data/dialogue/, without UniEval's scores; or"
            " tc_usr_data.json of http://shikib.com/usr, with single ratings)",
            "MIT (UniEval); none stated (USR)",
            "e1c28ffea8850d82a53c241922557fcde1a16b14cb50ce29db29ab3db702678d",
        ),
    ),
    rows,
)
