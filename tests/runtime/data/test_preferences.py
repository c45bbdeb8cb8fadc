"""Ratings of pairs: the words and numbers of published data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.data.rows import complaint, read, saved
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.preferences import read_preference

FIRST = ["A>B", "A", "a", "[[A]]", "A>>B", "model_a", "Model A", "response_A", "output_1", "first",
         "A is better", "model_a wins", "B<A", "answer 1", "(A)",
         "left", "the left one", "A_better", "first response"]  # fmt: skip
SECOND = ["B>A", "B", "[[B]]", "A<B", "A<<B", "model_b", "response_B", "Output 2", "second",
          "B is better", "assistant_b", "B ≻ A",
          "right", "Right side", "model_b_wins", "the second"]  # fmt: skip
NEITHER = ["tie", "Tie", "tie (bothbad)", "A=B", "draw", "equal", "both_bad", "neither", "A ~ B"]


@pytest.mark.parametrize(
    ("word", "preference"),
    [*((w, 1.0) for w in FIRST), *((w, 0.0) for w in SECOND), *((w, 0.5) for w in NEITHER)],
)
def test_words_of_published_data_are_preferences(word: str, preference: float) -> None:
    pair = {"output": "x", "output_b": "y", "human.overall": word}
    assert read([pair])[0].human == {"overall": preference}


@given(st.text(max_size=8))
def test_no_other_word_is_a_preference(word: str) -> None:
    """Of words with a letter that names no side."""
    if set(word.casefold()) & set("cdfgijkpqvxyz"):
        assert read_preference(word) in (None, 0.5)


@pytest.mark.parametrize("rows", [
    [{"prompt": "q", "chosen": "x", "rejected": "y"}, {"chosen": "output", "rejected": "output_b"}],
    [{"question": "q", "response_A": "x", "response_B": "y", "label": "B>A"},
     {"response_A": "output", "response_B": "output_b", "label": "human.overall"}],
    [{"instruction": "q", "output_1": "x", "output_2": "y", "preference": 2.0},
     {"output_1": "output", "output_2": "output_b", "preference": "human.overall"}],
    [{"input": "q", "output_1": "x", "output_2": "y", "label": 2},
     {"output_1": "output", "output_2": "output_b", "label": "human.overall"}],
    [{"prompt": "q", "response_a": "x", "response_b": "y", "model_a": "m", "model_b": "n",
      "winner": "model_b"},
     {"response_a": "output", "response_b": "output_b", "model_a": "system",
      "model_b": "system_b", "winner": "human.overall"}],
    [{"prompt": "q", "a": "x", "b": "y", "system": "m", "system_b": "n", "winner": "n"},
     {"a": "output", "b": "output_b", "winner": "human.overall"}],
    [{"prompt": "q", "left_text": "x", "right_text": "y", "better": "right_text"},
     {"left_text": "output", "right_text": "output_b", "better": "human.overall"}],
])  # fmt: skip
def test_pairs_of_published_data_are_mapped(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """RewardBench, JudgeBench, AlpacaEval, LLMBar, Arena; winners by place, system or column."""
    row, fields = rows
    header, cells = ",".join(row), ",".join(map(str, row.values()))
    for source in ([row], saved(tmp_path, f"{header}\n{cells}\n", "pairs.csv")):
        (example,) = read(source, **fields)
        assert (example.output, example.meta["output_b"], example.source) == ("x", "y", "q")
        assert example.human in ({}, {"overall": 0.0})


@pytest.mark.parametrize("rejected", [["y", "z"], {"text": "y"}])
def test_a_second_text_that_is_none_is_refused_with_its_map(rejected: Any) -> None:
    """As RewardBench 2 has its rejected answers; one of them can be taken."""
    row = {"prompt": "q", "chosen": "x", "rejected": rejected}
    fields = {"chosen": "output", "rejected": "output_b"}
    assert "should be one text or a list of messages" in complaint([row], fields)
    if isinstance(rejected, list):
        (example,) = read([row], **{"chosen": "output", "rejected.1": "output_b"})
        assert example.meta["output_b"] == "z"
    path = "output_b.0" if isinstance(rejected, list) else "output_b.text"
    (example,) = read([{"output": "x", "output_b": rejected}], **{path: "output_b"})
    assert example.meta == {"output_b": "y"}


@pytest.mark.parametrize(
    "form",
    [
        lambda text: [{"role": "user", "content": "q"}, {"role": "assistant", "content": text}],
        lambda text: [{"role": "assistant", "content": text}],
        lambda text: {"role": "assistant", "content": [{"type": "text", "text": text}]},
        lambda text: [{"from": "human", "value": "q"}, {"from": "gpt", "value": text}],
    ],
)
def test_both_texts_of_a_pair_may_be_messages(form: Callable[[str], Any]) -> None:
    """As UltraFeedback, Arena, TRL and OpenAI's preference tuning have them."""
    row = {"prompt": "q", "chosen": form("x"), "rejected": form("y")}
    (example,) = read([row], chosen="output", rejected="output_b")
    assert (example.output, example.meta["output_b"]) == ("x", "y")


def test_numbers_on_two_scales_are_refused_and_other_scales_stay() -> None:
    def rated(*values: float) -> list[dict[str, Any]]:
        return [
            {"id": str(at), "output": "x", "output_b": "y", "human.overall": value}
            for at, value in enumerate(values)
        ]

    assert [one.human["overall"] for one in read(rated(1, 2, 1.5))] == [1.0, 0.0, 0.5]
    assert [one.human["overall"] for one in read(rated(0, 0.5, 1))] == [0.0, 0.5, 1.0]
    assert [one.human["overall"] for one in read(rated(-3, 2, 1))] == [-3.0, 2.0, 1.0]
    assert "a number from 0 to 1 in another row" in complaint(rated(0, 2))
    # a 2 was read as the second text before the 3 came
    assert "is 3, and a number from 1 to 2 in another row" in complaint(rated(1, 2, 3))


def test_verdicts_with_a_row_for_each_rater_are_preferences() -> None:
    """MT-Bench's human judgments have a row per expert."""
    pair = {"output": "x", "output_b": "y", "system": "gpt", "system_b": "llama"}
    rows = [
        {"id": id_, **pair, "judge": judge, "winner": winner}
        for id_, judge, winner in (
            ("a", "ann", "model_a"),
            ("a", "bob", "llama"),
            ("b", "ann", "tie"),
            ("b", "bob", ""),
        )
    ]
    first, second = read(rows, judge="rater", winner="human.overall")
    assert first.annotators["overall"] == (1.0, 0.0)
    assert second.annotators["overall"] == (0.5, None)


def test_verdicts_of_another_judge_are_preferences_and_its_numbers_stay() -> None:
    pair = {"output": "x", "output_b": "y"}
    rows = [{**pair, "id": word, "metrics.judge": word, "metrics.length": length}
            for word, length in (("[[A]]", 2), ("B>A", 1.5), ("tie", 1))]  # fmt: skip
    assert [(one.metrics["judge"], one.metrics["length"]) for one in read(rows)] == [
        (1.0, 2.0), (0.0, 1.5), (0.5, 1.0)
    ]  # fmt: skip


@pytest.mark.parametrize(("values", "read_as"), [
    (("1", "0", "0.5"), [1.0, 0.0, 0.5]), (("1", "2"), [1.0, 0.0]), (("A", "tie", 2), [1, 0.5, 0]),
])  # fmt: skip
def test_numbers_in_texts_are_read_like_numbers(values: tuple[Any, ...], read_as: Any) -> None:
    rows = [{"id": str(at), "output": "x", "output_b": "y", "human.overall": value}
            for at, value in enumerate(values)]  # fmt: skip
    assert [one.human["overall"] for one in read(rows)] == read_as


@pytest.mark.parametrize(("values", "said"), [
    ((0, 1), "1 is read as the first text better, 0 as the second"),
    ((1, 2), "1 is read as the first text better, 2 as the second"),
    ((-2, 3), "higher numbers are read as the first text better"),
    (("A", "B"), ""),
])  # fmt: skip
def test_it_is_said_how_numbers_of_pairs_are_read(values: tuple[Any, ...], said: str) -> None:
    """OpenAI's summaries call the first text 0, and HelpSteer 3 prefers it by -3."""
    rows = [{"output": "x", "output_b": f"y{at}", "human.overall": value}
            for at, value in enumerate(values)]  # fmt: skip
    notices = Examples(rows).check().notices
    assert notices == ((f"ratings of pairs on 'overall': {said}",) if said else ())


@pytest.mark.parametrize("column", ["chosen_index", "winnerIdx", "index of the better text"])
@pytest.mark.parametrize("aspect", ["human.overall", "annotators.overall.ann"])
def test_numbers_of_a_column_of_indexes_are_refused(column: str, aspect: str) -> None:
    """1 is the second text in some data, and the first in others."""
    rows = [{"output": "x", "output_b": f"y{at}", column: at} for at in (0, 1)]
    assert f"{column}': is 0, and an index may count from 0" in complaint(rows, {column: aspect})
    texts = [{**row, column: str(row[column])} for row in rows]
    assert "an index may count from 0" in complaint(texts, {column: aspect})
    (first, _) = read([{**row, column: "A"} for row in rows], **{column: "human.overall"})
    assert first.human == {"overall": 1.0}
    single = [{"output": "x", column: 3}]
    assert read(single, **{column: "human.overall"})[0].human == {"overall": 3.0}


def test_pairs_that_differ_in_their_second_text_have_ids_of_their_own() -> None:
    rows = [{"source": "q", "output": "x", "output_b": other} for other in ("y", "z")]
    assert len({one.id for one in read(rows)}) == 2
    assert "have no ids and equal content" in complaint([rows[0], rows[0]])


@pytest.mark.parametrize(("word", "preference"), [
    ("m is better", 1.0), ("n wins", 0.0), ("A is significantly better", 1.0), ("A.", 1.0),
    ("B slightly better", 0.0), ("Tie!", 0.5), ("about the same", 0.5), ("no difference", 0.5),
])  # fmt: skip
def test_verdicts_with_verbs_and_adverbs_are_preferences(word: str, preference: float) -> None:
    row = {"output": "x", "output_b": "y", "system": "m", "system_b": "n", "human.overall": word}
    assert read([row])[0].human == {"overall": preference}


@pytest.mark.parametrize("word", ["A is not better", "A is no better", "A hardly better"])
def test_a_denied_preference_is_none(word: str) -> None:
    row = {"output": "x", "output_b": "y", "human.overall": word}
    assert "should be a number" in complaint([row])
