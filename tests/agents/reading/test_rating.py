"""Reading ratings out of judges' answers: hand-made traps, recorded answers, hostile text."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.agents.reading.rating import NoRating, Rating, parse_rating

FIVE = (1.0, 5.0)
DATA = Path(
    os.environ.get("TEXTASSAY_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
PROMPT_ECHO = """You will be given a conversation about facts (1-3), such as that of 1987.
Score the response on a scale of 1-3, with 1 meaning bad and 3 meaning good.
- 1 (bad): it is dull.
- 3 (good): it is not.
Coherence:
- Coherence: 2"""


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("3", 3),
        (" 2.5\n", 2.5),
        ("4,5", 4.5),
        ("４", 4),
        ("٤", 4),
        ("four", 4),
        ("Four stars.", 4),
        ("three and a half stars", 3.5),
        ("3½", 3.5),
        ("- 2", 2),
        ("Yes, 2.", 2),
        ("Rating: 2\nRationale: a score of 3 asks for more.", 2),
        ("Rating:2\nRationale: The film of 1987 has 3 acts.", 2),
        ("Rating: 2\nRationale: dull.\n- Use of fact:\nRating: 4", 2),
        ("Analysis: It has 2 parts and 4 errors. \nRating: 3", 3),
        ("Coherence: 3", 3),
        ("- Coherence: 1", 1),
        ("1. Coherence: 3", 3),
        ("Fluency: 4\nCoherence: 2\nRelevance: 5", 2),
        ("Fluency Score: 4\nCoherence Score: 2\nRelevance Score: 5", 2),
        ("Consistency: 4\nOverall score: 3", 3),
        ("Score (1-5): 4", 4),
        ("Score: [4]", 4),
        ("Score = 4", 4),
        ("**Score:** 4", 4),
        ("**Final score: 4**", 4),
        ("First score: 2. Second thoughts.\nFinal score: 3.", 3),
        ("Score:\n\n$\\boxed{4}$", 4),
        ("1 (bad)", 1),
        ("Somewhat (2)", 2),
        ("4 - The summary covers 3 of 7 facts.", 4),
        ("4. The summary is good.", 4),
        ("Aspect Coherence: 2/5", 2),
        ("3 out of 5", 3),
        ("I'd say 3/5 here.", 3),
        ("That is scoring a one out of five", 1),
        ("The year was 2016. Final score: 5.", 5),
        ("Bones fetched 40 dollars at the auction. 2.5", 2.5),
        ("On a scale of 1-5, I would rate this a 4.", 4),
        ("On a scale from 1 (worst) to 5 (best), I give the text a 4 for flow", 4),
        ("It earns a score of 4 on the 5-point scale.", 4),
        ("The coherence of this text is 2 (weak).", 2),
        ("Flow: 3", 3),
        ("He scored 15 penalties in 2 games. 2.", 2),
        ('{"score": 4, "reason": "a score of 2 would be harsh"}', 4),
        ('```json\n{"reason": "ok", "score": "3"}\n```', 3),
        ('{"Coherence": 2, "Fluency": 5}', 2),
        ('{"reason": "cut off here", "score": 4', 4),
        ("<think>Score: 1? No.</think>\nScore: 4", 4),
        (PROMPT_ECHO, 2),
    ],
)
def test_the_rating_is_found_among_other_numbers(answer, value):
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, Rating), found
    assert found.value == value


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "NoScoreFound"),
        ("Yes", "NoScoreFound"),
        ("Good", "NoScoreFound"),
        ("The text names 3 people and the year 2015 in all of it.", "NoScoreFound"),
        ("Beat Chile 1-0 in the match and went home", "NoScoreFound"),
        ("On a scale of 1-5 it depends", "NoScoreFound"),
        ("1. Is it clear?\n2. Is it short?\n3. Is it true?", "NoScoreFound"),
        ("2 people died", "NoScoreFound"),
        ("<think>Score: 4", "NoScoreFound"),
        ("D", "NoScoreFound"),
        ("Score: 7", "OffScale"),
        ("Score: 0", "OffScale"),
        ("Score: -3", "OffScale"),
        ("8/10", "OffScale"),
        ("Score: 8/10. It lists 3 facts. 2", "OffScale"),
        ("Rating: 3-4", "OffScale"),
        ("1,000", "OffScale"),
        ("9" * 5000, "OffScale"),
        ('{"score": 11}', "OffScale"),
        ("I'm sorry, but I cannot rate this.", "Declined"),
        ("As an AI, I have no opinion.", "Declined"),
        ("I can’t give this a score of 5.", "Declined"),
        ("N/A", "Declined"),
    ],
)
def test_no_rating_is_made_up(answer, reason):
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, NoRating), found
    assert found.reason == reason


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("D", 4),
        ("d", 4),
        ("(B)", 2),
        ("A. It flows", 1),
        ("Answer: C", 3),
        ("**E**", 5),
        ("I choose option B.", 2),
        ("The answer is (D), since A good text is short", 4),
        ("It reads well.\n\nC", 3),
        ("C) Fair", 3),
    ],
)
def test_letters_start_at_the_bottom_of_the_scale(answer, value):
    assert parse_rating(answer, scale=FIVE, form="letters").value == value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "answer", ["A good summary of the text", "4", "", "It is an A-list summary, says I", "Grade: G"]
)
def test_what_is_no_letter_of_the_scale_is_no_rating(answer):
    assert isinstance(parse_rating(answer, scale=FIVE, form="letters"), NoRating)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("★★★★☆", 4),
        ("****", 4),
        ("⭐️⭐️⭐️", 3),
        ("4-star", 4),
        ("Two stars. He scored 3 goals on a 5-star pitch.", 2),
    ],
)
def test_stars_are_counted_or_read(answer, value):
    assert parse_rating(answer, scale=FIVE, form="stars").value == value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "answer", ["Score: 3", "3/5", '{"score": 3}', "It is a 3. No. I rate it 3", "so it is bad (3)"]
)
def test_the_place_of_a_rating_holds_its_digits(answer):
    found = parse_rating(answer, scale=FIVE)
    assert isinstance(found, Rating)
    assert answer[slice(*found.span)] == "3"


def test_the_place_of_a_spelled_rating_is_the_word():
    found = parse_rating("Four stars.", scale=FIVE)
    assert isinstance(found, Rating)
    assert found.span == (0, 4)


def test_an_answer_that_is_given_again_is_read_for_what_is_asked_now():
    """The same words are another rating, or none, on another scale, in another form and under
    another name."""
    asked = [
        (FIVE, "number", 4.0),
        ((1, 3), "number", None),
        (FIVE, "letters", None),
        (FIVE, "stars", 4.0),
    ]
    for scale, form, value in asked * 2:
        assert getattr(parse_rating("Rating: 4", scale=scale, form=form), "value", None) == value  # type: ignore[arg-type]
    both = "Flow: 2\nCoherence: 4"
    for aspect, value in [("flow", 2.0), ("coherence", 4.0)] * 2:
        assert parse_rating(both, scale=FIVE, aspect=aspect).value == value  # type: ignore[union-attr]


pieces = st.sampled_from(
    re.findall(
        r"\S+|\n",
        'score rating Coherence : = / - – ( ) [ ] { } * ** " 1 2 3 5 10 99 4.5 1-5 out of five '
        "stars ★ \n 1. a A D E "
        "is scale of cannot rate 1e9 ² ½ NaN \ue000 \ue001 <think> </think> ``` json null true",
    )
)


@given(
    text=st.one_of(st.text(), st.lists(pieces).map(" ".join), st.lists(pieces).map("".join)),
    scale=st.sampled_from([(1, 5), (0, 1), (1, 3), (0, 100), (-2, 2), (1, 10)]),
    form=st.sampled_from(["number", "letters", "stars"]),
    aspect=st.sampled_from([None, "coherence", "logical flow", "*(", " "]),
)
def test_any_text_gives_a_rating_on_the_scale_or_a_reason(text, scale, form, aspect):
    found = parse_rating(text, scale=scale, form=form, aspect=aspect)
    if isinstance(found, Rating):
        assert scale[0] <= found.value <= scale[1]
        assert 0 <= found.span[0] < found.span[1] <= len(text)
    else:
        assert found.message


@pytest.mark.parametrize(
    "unit",
    ["1", "1 ", "score ", "score: ", " ", "\n", "*", "rate it a ", "(1-", "{", '{"a":', "[", "1/2/",
     "five out of ", "★", "A ", "coherence ", "<think>", "1. a\n", "1,", "cannot ", "score 1.",
     "a_", "scale of 1 "],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(unit):
    def read(text):
        for form in ("number", "letters", "stars"):
            parse_rating(text, scale=FIVE, form=form, aspect="coherence")

    assert grows_linearly(read, unit, 400)


def test_a_very_long_answer_is_read_at_both_ends():
    filler = "It says little. " * 10_000
    for answer in (f"Rating: 4\n{filler}", f"{filler}\nRating: 4"):
        found = parse_rating(answer, scale=FIVE)
        assert isinstance(found, Rating)
        assert answer[slice(*found.span)] == "4"


SCALES = {
    "naturalness": (1, 3),
    "coherence": (1, 3),
    "engagingness": (1, 3),
    "groundedness": (0, 1),
}
FORMS = {"mcq": "letters", "altmcq": "letters", "stareval": "stars"}


@pytest.mark.parametrize(
    "name",
    ["summeval/predictions_llm_judges"]
    + [
        f"topical_chat/predictions_gpt35_{p}"
        for p in ("analyze_rate", "geval", "llm_eval_no_cot", "rate_explain")
    ],
)
def test_recorded_answers_of_judges_are_read_as_recorded(name):
    path = DATA / f"{name}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"benchmark data not found at {path}; set TEXTASSAY_DATA")
    read: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % 4:
                continue
            row = json.loads(line)
            scale = FIVE if name.startswith("summeval") else SCALES[row["dimension"]]
            for answer, score in zip(row["raw"], row["scores"], strict=True):
                found = parse_rating(
                    answer,
                    scale=scale,
                    form=FORMS.get(row["prompt"], "number"),
                    aspect=row["dimension"],
                )
                key = f"{row['judge']}/{row['prompt']}"
                read[key] += 1
                equal[key] += (found.value if isinstance(found, Rating) else None) == score
    assert read
    assert {key: equal[key] / read[key] for key in read if equal[key] < 0.995 * read[key]} == {}
