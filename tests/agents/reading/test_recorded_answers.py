"""What real judges answered, as recorded: nearly all of it is read, and as the recorders read it.

And answers that were made to be misread: no rating is invented.
"""

from __future__ import annotations

from collections import Counter

from tests.benchmark_data import benchmark
from textassay.agents.reading.rating import NoRating, Rating, parse_choice, parse_rating

SCALES = {
    "naturalness": (1.0, 3.0),
    "coherence": (1.0, 3.0),
    "engagingness": (1.0, 3.0),
    "groundedness": (0.0, 1.0),
}
FORMS = {"mcq": "letters", "altmcq": "letters", "stareval": "stars"}
FILES = (
    "summeval/predictions_llm_judges.jsonl.gz",
    "topical_chat/predictions_gpt35_analyze_rate.jsonl.gz",
    "topical_chat/predictions_gpt35_geval.jsonl.gz",
    "topical_chat/predictions_gpt35_llm_eval_no_cot.jsonl.gz",
    "topical_chat/predictions_gpt35_rate_explain.jsonl.gz",
)
LEAST = {"llm_eval_no_cot": 0.985, "rts": 0.975, "altrts": 0.985}
"""Least share that is read of the answers to one prompt, where it is not .995: half of the first
kind's rest are opinions behind a number (`2. The response ...`), which lists begin with, too."""


def read(answer, **asked):
    found = parse_rating(answer, **asked)
    return found.value if isinstance(found, Rating) else None


def test_recorded_ratings_are_read_as_recorded():
    """99.5 % of all; three of them better than by the recorders, as their last lines show."""
    counted: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    different = list[str]()
    for name in FILES:
        for row in benchmark(name):
            scale = (1.0, 5.0) if name.startswith("summeval") else SCALES[row["dimension"]]
            form = FORMS.get(row["prompt"], "number")
            for answer, recorded in zip(row["raw"], row["scores"], strict=True):
                value = read(answer, scale=scale, form=form, aspect=row["dimension"])
                counted[row["prompt"]] += recorded is not None
                lost[row["prompt"]] += recorded is not None and value is None
                if value not in (None, recorded):
                    different.append(answer.splitlines()[-1])
    assert different == ["2", "Answer: 3", "Score: 1"]
    assert counted.total() > 140_000
    assert lost.total() <= 0.005 * counted.total()
    shares = {prompt: 1 - lost[prompt] / counted[prompt] for prompt in counted}
    assert {p: s for p, s in shares.items() if s < LEAST.get(p, 0.995)} == {}


def test_recorded_choices_are_read_as_recorded():
    """LLMBar's judges, without reasoning: `Output (a)`."""
    answers = read_choices = 0
    for row in benchmark("llmbar/llmbar.jsonl.gz"):
        for said in row["answers"].values():
            for order in ("order_1", "order_2"):
                choice = parse_choice(said[order]["raw"])
                if isinstance(choice, NoRating):
                    continue
                # winners are numbered in the first order
                first_won = said[order]["winner"] == ("1" if order == "order_1" else "2")
                assert (choice == 1.0) == first_won
                read_choices += 1
            answers += 2
    assert answers > 4_000
    assert read_choices >= 0.995 * answers


def test_no_rating_is_invented():
    """Ranges, other scales, sums, quotations, corrections, other aspects, half JSON."""
    rows = benchmark("nasty-answers/answers.jsonl")
    assert len(rows) >= 180
    values = {row["id"]: read(row["answer"], scale=(1.0, 5.0), aspect="fluency") for row in rows}
    invented = {
        row["answer"]: values[row["id"]]
        for row in rows
        if values[row["id"]] is not None and values[row["id"]] not in row["allowed"]
    }
    assert invented == {}
    missed = [row for row in rows if values[row["id"]] is None and None not in row["allowed"]]
    # Thoughts are taken off before an answer is read.
    assert [row["answer"] for row in missed if "<think>" not in row["answer"]] == []
