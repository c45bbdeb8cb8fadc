"""Rubrics: what is read as one, and what verdicts add up to; copies of aspects and trees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmark_data import benchmark
from textassay import Example
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Aspect, AspectTree
from textassay.runtime.rubric import (
    Criterion,
    read_rubric,
    share_of_points,
    with_prerequisites,
)

HEALTH = [
    {"criterion": "Advises to call an ambulance", "points": 8, "tags": ["axis:completeness"]},
    {"criterion": "Names the hotline", "points": 2, "tags": ["level:example", "axis:accuracy"]},
    {"criterion": "Advises to wait", "points": -6, "tags": ["axis:accuracy"]},
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["Is short"], {"criterion": "Is short", "points": 1.0, "id": "0", "tags": ()}),
        (HEALTH, {"points": 8.0, "tags": ("axis:completeness",)}),
        ([{"criterion_text": "Is\n short", "points": 5}], {"criterion": "Is short", "points": 5}),
        (
            [{"requirement_id": 3, "criteria": "Loads", "prerequisites": [], "category": "Data",
              "satisfied": True}],
            {"id": "3", "tags": ("Data",), "human": 1.0},
        ),
        ([{"criterion": "a", "human": "no"}], {"human": 0.0}),
        ([{"criterion": "a", "human": 0.25, "weight": 0.5}], {"human": 0.25, "points": 0.5}),
    ],
)  # fmt: skip
def test_published_forms_are_read_alike(given: Any, expected: dict[str, Any]) -> None:
    """HealthBench's, HealthBench Professional's and DevAI's, and plain texts."""
    first = read_rubric(given)[0].model_dump()
    assert first | expected == first
    assert Example(output="x", rubric=given).rubric == read_rubric(given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("Be kind.", "should be a list of criteria"),
        ([1], "criterion 0: should be a text or an object, not 1"),
        ([{"points": 1}], "criterion 0, criterion: Field required"),
        ([" "], "criterion 0, criterion: String should have at least 1"),
        ([{"criterion": "a", "points": "3"}], "criterion 0, points: Input should be a valid"),
        ([{"criterion": "a", "points": True}], "criterion 0, points: Input should be a valid"),
        ([{"criterion": "a", "note": 1}], "unknown key 'note'; known: criterion, points"),
        ([{"criterion": "a", "criteria": "b"}], "'criteria' means 'criterion', which is there"),
        ([{"criterion": "a", "human": 3}], "criterion 0, human: Input should be less than"),
        (["a", {"criterion": "b", "id": 0}], "has two criteria with the id '0'"),
        ([{"criterion": "a", "prerequisites": [7]}], "criterion '0' depends on '7', which is not"),
        ([{"criterion": "a", "points": -2}], "has no criterion with points above 0"),
        (["a"] * 201, "has 201 criteria; at most 200 are allowed"),
    ],
)
def test_an_unusable_rubric_is_refused_with_row_and_field(given: Any, problem: str) -> None:
    with pytest.raises(DataError, match=f"^list, row 1, field 'rubrics': .*{problem}"):
        Examples([{"output": "x", "rubrics": given}]).check()


def test_rubrics_come_in_files_and_tables(tmp_path: Any) -> None:
    row = {"id": "a", "output": "x", "rubric": HEALTH}
    file = tmp_path / "data.csv"
    quoted = json.dumps(HEALTH).replace('"', '""')
    file.write_text(f'id,output,rubric\na,x,"{quoted}"\n', encoding="utf-8")
    infos = [Examples(source).check() for source in ([row], file)]
    assert infos[0].digest == infos[1].digest
    assert [info.rubrics for info in infos] == [1, 1]
    other = Examples([{**row, "rubric": HEALTH[:2]}]).check()
    assert other.digest != infos[0].digest
    none = Examples([{"id": "a", "output": "x"}]).check()
    assert none.digest == Examples([{"id": "a", "output": "x", "rubric": []}]).check().digest


def test_a_row_of_healthbench_loads_as_it_is() -> None:
    row = {
        "prompt": [{"role": "user", "content": "My chest hurts."}], "prompt_id": "p1",
        "rubrics": HEALTH, "example_tags": ["theme:emergency"], "completion": "Wait.",
        "ideal_completions_data": {"ideal_completion": "Call.", "ideal_completions_group": "g"},
        "canary": "healthbench:0",
    }  # fmt: skip
    [example] = Examples([row])
    assert [one.points for one in example.rubric] == [8, 2, -6]
    assert (example.output, "My chest hurts." in (example.source or "")) == ("Wait.", True)


def test_what_ragas_calls_rubrics_is_kept_and_reported() -> None:
    data = Examples([{"output": "x", "rubrics": {"score1_description": "bad"}}])
    assert data.check().unseen == {"rubrics": 1}
    assert [one.meta for one in data] == [{"rubrics": {"score1_description": "bad"}}]


def test_only_the_last_turn_has_the_rubric_of_a_conversation() -> None:
    messages = [{"role": role, "content": role} for role in ("user", "assistant") * 2]
    turns = list(Examples([{"messages": messages, "rubric": ["a"]}], unit="turn"))
    assert [len(turn.rubric) for turn in turns] == [0, 1]


def test_points_are_counted_as_healthbench_does() -> None:
    """Met points by positive points; below zero where faults outweigh (section 3)."""
    rubric = read_rubric(HEALTH)
    assert share_of_points(rubric, [True, False, False]) == 0.8
    assert share_of_points(rubric, [True, True, True]) == 0.4
    assert share_of_points(rubric, [False, False, True]) == pytest.approx(-0.6)
    assert share_of_points(rubric, [None, True, False]) == 1.0
    assert share_of_points(rubric, [None, None, True]) is None


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ([True, True, True], [True, True, True]),
        ([False, True, True], [False, False, True]),
        ([None, True, True], [None, None, True]),
        ([None, False, True], [None, False, False]),
    ],
)
def test_a_criterion_is_met_only_with_its_prerequisites(
    own: list[bool | None], expected: list[bool | None]
) -> None:
    rubric = read_rubric(
        ["a", {"criterion": "b", "prerequisites": [0]}, {"criterion": "c", "prerequisites": ["1"]}]
    )
    assert with_prerequisites(rubric, own) == expected


VERDICTS = st.lists(
    st.tuples(st.sampled_from([-5.0, -1.0, 0.0, 1.0, 3.0]), st.sampled_from([True, False, None])),
    min_size=1, max_size=8,
)  # fmt: skip


@given(VERDICTS)
def test_every_way_to_fill_in_what_is_missing_stays_between_the_ends(
    drawn: list[tuple[float, bool | None]],
) -> None:
    rubric = [
        Criterion(criterion="c", id=str(at), points=points) for at, (points, _) in enumerate(drawn)
    ]
    rubric.append(Criterion(criterion="c", id="last"))
    met = [verdict for _, verdict in drawn] + [True]
    ends = [
        share_of_points(
            rubric,
            [
                (one.points > 0) == best if m is None else m
                for one, m in zip(rubric, met, strict=True)
            ],
        )
        for best in (False, True)
    ]
    for filled in (True, False):
        value = share_of_points(rubric, [filled if m is None else m for m in met])
        assert ends[0] - 1e-12 <= value <= ends[1] + 1e-12 <= 1 + 2e-12


@pytest.mark.parametrize(
    ("judge", "name", "system", "met"),
    [
        ("human", "satisfied", "GPT-Pilot", 106),
        ("human", "satisfied", "OpenHands", 105),
        ("metrics", "agent_as_a_judge", "GPT-Pilot", 112),
        ("metrics", "agent_as_a_judge", "OpenHands", 103),
    ],
)
def test_devai_s_published_requirements_met(judge: str, name: str, system: str, met: int) -> None:
    """Zhuge et al. (2024), table 2, "Requirements Met (D)": 28.96, 28.68, 30.60 and 28.14 %."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for row in benchmark("devai/devai.jsonl.gz"):
        if row["system"] == system and judge in row:
            tasks.setdefault(row["group"], []).append(row)
    found = total = 0
    for rows in tasks.values():
        rubric = read_rubric(
            [{"criterion": r["criterion"], "prerequisites": r["prerequisites"]} for r in rows]
        )
        verdicts = with_prerequisites(rubric, [r[judge][name] for r in rows])
        found, total = found + verdicts.count(True), total + len(verdicts)
    assert (found, total) == (met, 366)


def test_criteria_that_depend_on_each_other_are_reported_once() -> None:
    """DevAI has one such rubric; what it earns is as published."""
    rubric = [
        "a",
        {"criterion": "b", "id": "b", "prerequisites": ["c"]},
        {"criterion": "c", "id": "c", "prerequisites": ["b", "0"]},
    ]
    info = Examples([{"output": "x", "rubric": rubric}, {"output": "y", "rubric": ["a"]}]).check()
    (told,) = info.notices
    assert "in 1 of 2 rubrics, criteria depend on each other in a circle (" in told
    assert set(info.circle) == {"b", "c"}
    assert with_prerequisites(read_rubric(rubric), [True, True, False]) == [True, False, False]
    assert Examples([{"output": "x", "rubric": ["a"]}]).check().notices == ()


def test_a_copy_forgets_what_was_computed_from_replaced_fields():
    aspect = Aspect(name="Logical flow", definition="order of ideas")
    assert aspect.id == "logical-flow"
    renamed = aspect.model_copy(update={"name": "Clarity"})
    assert (renamed.id, renamed.label) == ("clarity", "Clarity")
    below = aspect.model_copy(update={"parent": "coherence"})
    assert (below.id, below.label) == ("coherence/logical-flow", "coherence/logical-flow")
    assert aspect.id == "logical-flow"
    assert renamed == Aspect(name="Clarity", definition="order of ideas")


def test_a_copied_tree_has_the_layers_of_its_own_aspects():
    root = Aspect(name="coherence", definition="d")
    tree = AspectTree(aspects=(root,))
    assert (tree.depth, tree.leaves) == (1, (root,))
    leaf = Aspect(name="flow", definition="d", parent="coherence")
    deeper = tree.model_copy(update={"aspects": (root, leaf)})
    assert (deeper.depth, deeper.leaves, deeper[leaf.id]) == (2, (leaf,), leaf)


def test_aspects_are_distinguished_by_all_their_fields_and_equal_ones_share_a_place():
    one, other = (Aspect(name="Flow", definition="Reads well.") for _ in range(2))
    assert one.label == "Flow"  # computed once, and no part of what the aspect is
    assert {one: "kept"}[other] == "kept"
    assert one not in {Aspect(name="Flow", definition="Sentences connect.")}
