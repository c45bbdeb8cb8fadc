"""Verdicts on the criteria of rubrics, held against people's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmark_data import benchmark
from textassay import Score, meta

NAME = "agent_as_a_judge"


class Recorded:
    """What holds scores in memory, as a run does."""

    def __init__(self, scores: list[Score]) -> None:
        self.scores = scores


def score(id_: str, met: dict[str, bool | None], tags: tuple[str, ...] = ()) -> Score:
    """Return a total with its verdicts as evidence."""
    return Score(
        id=id_,
        aspect="rubric",
        value=0.5,
        evidence=tuple(
            {"text": "c", "criterion": name, "met": said, "tags": list(tags)}
            for name, said in met.items()
        ),
    )


@pytest.mark.parametrize(("system", "agreement"), [("GPT-Pilot", 0.866), ("OpenHands", 0.902)])
def test_devai_as_rubrics_has_the_published_agreement(system: str, agreement: float) -> None:
    """Zhuge et al. (2024), table 3; the intervals are over the 54 tasks."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for row in benchmark("devai/devai.jsonl.gz"):
        if row["system"] == system and "human" in row and "metrics" in row:
            tasks.setdefault(row["group"], []).append(row)
    data = [
        {"id": task, "output": "", "rubric": [
            {"criterion": r["criterion"], "prerequisites": r["prerequisites"],
             "category": r["category"], "satisfied": r["human"]["satisfied"]} for r in rows]}
        for task, rows in tasks.items()
    ]  # fmt: skip
    judged = [
        score(task, {str(at): row["metrics"][NAME] for at, row in enumerate(rows)})
        for task, rows in tasks.items()
    ]
    table = meta.agreement_table(Recorded(judged), data, bootstrap=50)
    [found] = table.labels
    assert (found.aspect, found.agreement.n, found.agreement.groups) == ("criteria", 359, 54)
    assert found.agreement.measures["accuracy"].value == pytest.approx(agreement, abs=6e-4)
    assert table.unknown_ids == 0


def test_criteria_stand_beside_other_ratings_and_by_tag() -> None:
    """Missing verdicts, ties of raters and criteria without a label are left out."""
    criteria = [
        {"criterion": "a", "human": 1, "tags": ["t"]}, {"criterion": "b", "human": 0.75},
        {"criterion": "c", "human": 0.5}, {"criterion": "d"},
    ]  # fmt: skip
    data = [
        {"id": f"x{at}", "output": "", "human": {"rubric": at}, "rubric": criteria}
        for at in range(6)
    ]
    judged = [
        score(f"x{at}", {"0": True, "1": None if at == 5 else at > 2, "2": True, "3": True}, ("t",))
        for at in range(6)
    ]
    table = meta.agreement_table(Recorded(judged), data, bootstrap=0)
    assert [(row.aspect, row.agreement.n) for row in table.rows] == [
        ("rubric", 6),
        ("criteria", 11),
        ("criteria: t", 6),
    ]
    assert table.labels[0].agreement.coverage == pytest.approx(11 / 12)
    assert table.labels[0].agreement.measures["accuracy"].value == pytest.approx(8 / 11)
