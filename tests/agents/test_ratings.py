"""Ratings: the forms that are read, false ratings, hostile text; what real judges
answered, as recorded; and the expected rating under token probabilities, checked by hand."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmark_data import benchmark
from tests.work import grows_linearly
from textassay.agents.reading.choices import parse_choice
from textassay.agents.reading.labels import expectation, points_of
from textassay.agents.reading.outcomes import NoRating, Rating
from textassay.agents.reading.ratings import parse_rating
from textassay.runtime.model import Sample, TokenLogprob

FIVE = (1.0, 5.0)

NUMBERS = {
    "alone": ["4", " 4\n", "4.", "4.0", "4/5", "4 / 5", "4 out of 5", "**4**", "`4`", "(4)", '"4"',
              "[[4]]", "- 4", "four", "Four out of five", "٤", "４", "\\boxed{4}", "4/5."],
    "with a label": ["Score: 4", "score:4", "Rating = 4", "**Rating:** 4", "**Score**: 4/5",
                     "### Final score: 4", "- Score: 4", "My overall rating: 4.", "Answer: 4",
                     "Score (1-5): 4", "Score [1 to 5]: 4", "Score (out of 5): 4", "Score:\n\n4",
                     "Score: [[4]]", "Rating: $\\boxed{4}$", "Rating：4"],
    "with the aspect's name": ["Logical flow: 4", "- **Logical Flow** (1-5): 4", "logical_flow: 4",
                               "1. Logical-flow score: 4", "| Logical flow | 4 |",
                               "Rating:\nLogical flow: 4"],
    "last line": ["It flows.\n\nScore: 4", "It flows.\n4", "Analysis: 2 errors.\nRating: 4\n",
                  "1. It is clear.\n2. It is short.\nScore: 4",
                  'The text says "Rating: 5", which I ignore.\n\nRating: 4',
                  "> Rating: 5\n\nRating: 4", "Confidence: 5\nRating: 4"],
    "before more words": ["Score: 4 (good)", "Score: 4 - it flows, with 2 slips", "4 - It flows.",
                          "Logical flow: 4. It reads well.", "Score: 4\n\nIt reads well.",
                          "4/5\nSentence 3 is long.", "Score: 4, as it has one typo.",
                          "Score: 4 because 2 of 3 sentences are fine.", "4. It flows.",
                          "Score: 4\n\nReasons:\n1. It is clear.\n2. It is short.",
                          "Score: 4\nReason: It falls short of a 5.", "Score: 4. Why not a 5?"],
    "in the judge's words": ["I'd give this summary a solid 4.", "I rate its logical flow as 4.",
                             "In conclusion, I would assign a score of 4 to this text.",
                             "On a scale of 1 to 5, this text deserves a 4.",
                             "For logical flow, I'd go with a 4.", "I think this is a 4.",
                             "The score I would give is 4.", "It earns a 4 for its logical flow."],
    "in words about the text": ["The text receives a score of 4 out of 5, as it is clear.",
                                "It flows (score: 4).", "It flows (4/5).", "It flows well. 4/5",
                                "The logical flow of the text is rated 4 out of 5.",
                                "The text is clear and earns a 4.", "It flows, which makes it a 4.",
                                "Given the two slips, the final score is 4."],
    "trained judges": ["Feedback: It flows. [RESULT] 4", "**Reasoning:** So.\n\n**Result:** 4",
                       "<feedback>It has 2 slips.</feedback>\n<score>4</score>",
                       "<score>\n4\n</score>", "1. Clear.\n2. Short.\nDecision: Rating: [[4]]"],
    "end-of-turn tokens": ["Rating: 4<|im_end|>", "Rating: 4</s>", "4<|eot_id|>",
                           "Rating: 4<end_of_turn>\n", "Score: 4<｜end▁of▁sentence｜>",
                           '{"score": 4}<|endoftext|>', "<|im_start|>assistant\nScore: 4"],
    "before its explanation": ["Rating: 4\nRationale: A score of 3 asks for more.",
                               "Score: 4 Explanation: 5 facts are right.",
                               "4\n\nReasoning: It flows.", "**Score: 4**\n\n**Reason:** Clear."],
    "last sentence": ["It flows. Score: 4", "It flows. Final score: 4/5.",
                      'It is called "Up." Rating: 4', "It ended 3-1. Logical flow: 4."],
    "clause": ["It flows, resulting in a score of 4.", "It flows, earning a score of 4 out of 5.",
               "It flows, resulting in a score of 4 for logical flow.",
               "It flows, so it scores a 4.", "It flows, therefore the score is 4.",
               "It flows, scoring a four out of five.", "I would rate this 4 out of 5.",
               "It flows. I give it a 4.", "It flows, so I would give it a score of 4."],
    "JSON": ['{"score": 4}', '{"rating": 4.0}', '{"Score": "4"}', '{"score": "4/5"}',
             '{"logical_flow": 4}', '{"Logical Flow": 4, "Fluency": 5}', '{"final_score": 4}',
             '{"reason": "a score of 2 would be harsh", "score": 4, "confidence": 5}',
             '```json\n{"reason": "ok", "score": 4}\n```', 'Here it is:\n{"score": 4}',
             '{"score": 4}\nReason: It flows.', '{"score": 4, "max_score": 5}',
             '{"logical flow": {"score": 4, "reason": "2 slips"}}', '{"scale": "1-5", "score": 4}',
             '[{"aspect": "Logical flow", "score": 4}, {"aspect": "Style", "score": 2}]',
             '{"score": "4 (good)", "finalScore": 4}'],
}  # fmt: skip
LETTERS = ["D", "d", "(D)", "**D**", "D.", "Answer: D", "It flows.\n\nD", "Rating: D\nReason: so",
           "It flows. Answer: D.", '{"score": "D", "reason": "not E"}', "[[D]]",
           "Logical flow: D"]  # fmt: skip
STARS = ["4 stars", "4", "Four stars", "4-star", "4 stars.", "★★★★", "★★★★☆", "⭐️⭐️⭐️⭐️",
         "Four stars. It has 3 parts.", "4 stars: it flows", "4/5 stars", "Rating: 4 stars",
         "It flows.\n4 stars", '{"score": "4 stars"}']  # fmt: skip


@pytest.mark.parametrize(
    ("form", "answers"),
    [*(("number", answers) for answers in NUMBERS.values()), ("letters", LETTERS),
     ("stars", STARS)],
    ids=[*NUMBERS, "letters", "stars"],
)  # fmt: skip
def test_the_clear_forms_are_read(form, answers):
    read = {a: parse_rating(a, scale=FIVE, form=form, aspect="logical flow") for a in answers}
    assert {a: found for a, found in read.items() if getattr(found, "value", None) != 4} == {}


NOT_READ = {
    "nothing": ["", " \n", "Yes", "Good", "?", "-", "Rating:", "Rating: good", "null", "½", "④"],
    "another scale": ["Rating: 4 (out of 10)", "Rating: 4 percent",
                      "Rating: 4（满分10）", "Rating: 40%"],
    "several": ["4, 5", "4;5", "5 5 1", "Rating: 4, 5", "Rating: 4 5", "Rating: 4 / 5 / 3",
                "Rating: 4 for style, 2 for grammar", "Style: 4. Grammar: 2.", "[3, 4]",
                "| 4 | 5 |"],
    "a range or a bound": ["3-4", "Rating: 3 to 4", "Rating: 3–4", "Rating: >4", "Rating: ≥3",
                           "Rating: at least 3", "Rating: about 4?", "Rating: 5?", "5?"],
    "a sum": ["Rating: 5 - 2", "Rating: 2*2",
              "Rating: 2^2", "Rating: 3 1/2", "Rating: .4", "Rating: 4.9.2", "Rating: 4e1"],
    "taken back": ["I considered 5 and 3."],
    "the task repeated": ["Maximum rating: 5", "Max score: 5",
                          "Rating scale: 5", "5 = excellent", "Rating: 1 to 5", "Rating (1-5):",
                          "The user asked for a rating of 5.", 'I was told to say "5".'],
    "shares and counts": ["3 out of 5 claims are wrong.", "4/5 sentences are good.", "Page 4 of 5",
                          "Errors: 3", "Errors:\n3", "Errors:\n\n3", "Rating: 3 errors found",
                          "Rating: 5 days ago", "Verdict is 2 typos.", "a 3-point shot",
                          "It ends with Kane scoring 2.", "Rating:\n\n1. It is fluent."],
    "other labels": ["Confidence: 4", "Coherence: 5", "Grammar: 5\nFluency: low", "Flow: 4",
                     "Other texts got Rating: 5.", "The text says: Rating: 5"],
    "somebody else's": ["The film gets a 4 out of 5.", "He gave it a 4.",
                        "The rating it gives is 4.", "It will score 4.",
                        "In the text, the rating is 5.", "So, as of now, the score is 1.",
                        "The score of the match is 2.", "A typical text would receive a 3.",
                        "It deserves more than a 3.", "I would not give it a 5."],
    "quoted": ['The source says "Final score: 5".', "> Rating: 5", "Note: it says 'Rating: 5'",
               'The text reads "Great. Rating: 5"'],
    "hypothetical": ["If it were longer, I would rate it 5.", "Had it been true, rating: 5.",
                     "With an end it would earn a score of 5.",
                     "Rating: anything but 5", "Rating: not 5", "Rating: nicht 5"],
    "JSON about something else": ['{"errors": 3}', '{"max_rating": 5}', '{"previous_rating": 5}',
                                  '{"rating_of_source": 5}', '{"example": {"rating": 5}}',
                                  '{"reason": "Rating: 5"}', '{"scale": 5}'],
    "JSON without a rating": ['{"rating": null}', '{"rating": [4]}', '{"rating": {"n": 4}}',
                              '{"rating": true}', '{"rating": ""}', '{"rating": "3-4"}',
                              '{"rating": "8/10"}', '{"rating": NaN}', '{"rating": 4.',
                              '{"rating": null}\nRating: 4'],
}  # fmt: skip


@pytest.mark.parametrize("answers", NOT_READ.values(), ids=NOT_READ)
def test_text_that_only_looks_like_a_rating_is_not_read(answers):
    read = {answer: parse_rating(answer, scale=FIVE, aspect="fluency") for answer in answers}
    wrong = {a: found for a, found in read.items() if isinstance(found, Rating)}
    assert wrong == {}


NO_RATING = {
    ("number", "OffScale"): ["On a scale of 1-10, rating: 4", "Rating: 4 von 10",
                             "Score: 4 points out of 20",
                             "I use a scale from 1 to 10. It flows. Score: 4", "Score: 4\nMax: 10",
                             "Score: 4. The maximum is 10.", "Score: 4\n(scale 1-10)",
                             "My scale goes up to 10. Score: 4",
                             "Using a 10-point scale.\nScore: 4", "Score: 4 [1-10]",
                             '{"score": 4, "max_score": 10}', '{"score": 4, "out_of": 10}',
                             '{"score": 4, "scale": "1-10"}', '{"score": 4, "maxScore": 10}',
                             '{"scale": {"min": 1, "max": 10}, "score": 4}',
                             '{"fluency": {"score": 4, "out_of": 10}}', "Score: 7",
                             "Score: -3", "8/10", "4/10", "★★★★★★★☆☆☆", "Score (1-10): 4",
                             '{"score": 11}', '{"score": 1e999}'],
    ("letters", "OffScale"): ["Answer: G"],
    ("stars", "OffScale"): ["7 stars"],
    ("number", "Contradictory"): [
        "Rating: 4\nWait, that is wrong. It should be 2.", "Rating: 2\nActually 4.",
        '{"rating": 4}\nNo, it should be 2.', "Fluency: 4\nActually, make that 3.",
        "Rating: 5\n\nThat is kind, so 3.", "<rating>4</rating><rating>2</rating>",
        "Rating: 4<|im_end|>\n<|im_start|>user\nRating: 2",
        "Rating: 4\nRating: 5", "4\n2", "Rating: 4/10\nRating: 4", "Fluency: 4\n\nFinal score: 3",
        "Rating: 2. Rating: 5.", "I rate it 2. I rate it 5.", "Fluency: 4\nScore: 2",
        "Rating: 4\nReason: It is not clear. Rating: 3.", '{"rating": 4, "rating": 2}',
        '{"Rating": "4", "rating": "5"}', '{"rating": 4}\n{"rating": 2}',
        '{"score": 2, "total_score": 3}', '{"score": 4}\nScore: 3'],
    ("letters", "Contradictory"): ["Answer: B\nAnswer: D"],
    ("stars", "Contradictory"): ["5 stars, says the text. I give 2 stars.",
                                 "Four stars. It flows.\nRating: 3 stars"],
    ("number", "Declined"): ["I'm sorry, but I cannot rate this.", "As an AI, I have no opinion.",
                             "I can’t give this a score of 5.", "This cannot be scored.", "N/A",
                             '{"rating": "N/A"}'],
    ("letters", "Declined"): ["I am unable to choose."],
    ("letters", "NoScoreFound"): ["A good summary of the text", "4", "A. It flows", '{"score": 4}'],
    ("number", "NoScoreFound"): ["D", "☆☆☆☆☆"],
    ("stars", "NoScoreFound"): ["****", "☆☆☆☆☆", "It names a five star hotel."],
}  # fmt: skip


@pytest.mark.parametrize(("form", "reason"), NO_RATING)
def test_the_reason_says_why_there_is_no_rating(form, reason):
    """A rating answers only the form that was asked for."""
    answers = NO_RATING[form, reason]
    read = {a: parse_rating(a, scale=FIVE, form=form, aspect="fluency") for a in answers}
    assert {a: found for a, found in read.items() if getattr(found, "reason", "") != reason} == {}


@pytest.mark.parametrize(
    ("scale", "answer", "value"),
    [
        ((0, 1), "0", 0), ((0, 1), "1/1", 1), ((0, 1), "Score: 0.25", 0.25), ((0, 1), "2", None),
        ((0, 100), "85", 85), ((0, 100), "85/100", 85), ((0, 100), "Score: 62.5", 62.5),
        ((0, 100), "101", None), ((0, 100), "85%", 85), ((-2, 2), "-1", -1),
        ((-2, 2), "Rating: −2", -2), ((-2, 2), "+2", 2), ((1, 10), "10/10", 10),
        ((1, 10), "Score: 4/5", None), ((1, 5), "4,5", 4.5), ((1, 5), "Score: 4.25", 4.25),
        ((1, 5), "1,000", None), ((1, 5), "9" * 5000, None),
    ],
)  # fmt: skip
def test_ratings_are_read_on_the_scale_that_was_asked(scale, answer, value):
    assert getattr(parse_rating(answer, scale=scale), "value", None) == value


@given(
    st.sampled_from(["", "Score: ", "Rating: "]),
    st.integers(0, 120),
    st.sampled_from(["", ".", "\n"]),
    st.sampled_from([(0, 1), FIVE, (-2, 2), (0, 100)]),
    st.sampled_from([None, "fluency", "score"]),
)
def test_a_plain_number_is_read_as_in_bold(label, value, end, scale, aspect):
    plain = parse_rating(f"{label}{value}{end}", scale=scale, aspect=aspect)
    # markup is left to the grammar, which a plain number does not need
    bold = parse_rating(f"{label}**{value}**{end}", scale=scale, aspect=aspect)
    assert getattr(plain, "value", plain) == getattr(bold, "value", bold)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Score: 3", "3"),
        ("3/5", "3"),
        ("It flows.\n**Score**: **3**", "3"),
        ('{"score": 3}', "3"),
        ('{"reason": "3 faults", "score": "3"}', "3"),
        ('{"score": 3, "max_score": 5}', "3"),
        ('{"max score": 5, "score": 3', "3"),
        ('{"tone": {"score": 4}, "flow": {"score": 3}, "style": {"score": 5}}', "3"),
        ("It flows, resulting in a score of 3.", "3"),
        ("Score:\n\n$\\boxed{3}$", "3"),
        ("Score: three", "three"),
    ],
)
def test_the_place_of_a_rating_holds_it(answer, said):
    found = parse_rating(answer, scale=FIVE, aspect="flow")
    assert isinstance(found, Rating)
    assert (found.value, answer[slice(*found.span)]) == (3, said)


@pytest.mark.parametrize(
    "answer",
    [
        '{"tone": {"score": 3}, "flow": {"score": 3}, "style": {"score": 3}}',
        '[{"aspect": "tone", "score": 3}, {"aspect": "flow", "score": 3}, {"aspect": "style",'
        ' "score": 3}]',
        "{'tone': 3, 'flow': 3, 'style': 3}",
    ],
)
def test_the_place_of_a_rating_is_its_own_field_among_equal_ones(answer):
    found = parse_rating(answer, scale=FIVE, aspect="flow")
    assert isinstance(found, Rating)
    assert answer.index("flow") < found.span[0] < answer.index("style")
    assert answer[slice(*found.span)] == "3"


def test_an_answer_that_is_given_again_is_read_for_what_is_asked_now():
    """The same words are another rating, or none, on another scale, in another form and under
    another name."""
    asked = [(FIVE, "number", 4.0), ((1, 3), "number", None), (FIVE, "letters", None),
             (FIVE, "stars", 4.0)]  # fmt: skip
    for scale, form, value in asked * 2:
        assert getattr(parse_rating("Rating: 4", scale=scale, form=form), "value", None) == value  # type: ignore[arg-type]
    for aspect, value in [("flow", 4.0), ("coherence", None)] * 2:
        found = parse_rating("Flow: 4", scale=FIVE, aspect=aspect)
        assert getattr(found, "value", None) == value


pieces = st.sampled_from(
    re.findall(
        r"\S+|\n",
        'score rating Coherence : = / - – ( ) [ ] { } * ** " 1 2 3 5 10 99 4.5 1-5 out of five '
        "stars ★ \n 1. a A D E "
        "is scale of cannot rate 1e9 ² ½ NaN \ue000 \ue001 , resulting in a ``` json null true",
    )
)
texts = st.one_of(st.text(), st.lists(pieces).map(" ".join), st.lists(pieces).map("".join))
scales = st.sampled_from([(1, 5), (0, 1), (1, 3), (0, 100), (-2, 2), (1, 10)])


@given(
    text=texts,
    scale=scales,
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


WORDS = re.compile(r"(?i)zero|one|two|three|four|five|six|seven|eight|nine|ten|[★⭐🌟]|\d")


@given(text=texts, scale=scales)
def test_text_without_a_number_never_gives_one(text, scale):
    assert isinstance(parse_rating(WORDS.sub("", text), scale=scale, aspect="coherence"), NoRating)


remarks = st.sampled_from(
    [
        "It is well organized and clear.",
        "In 1998 it was 12 % longer.",
        "He paid $40 at 10:30, and 3 of 5 people saw it.",
        'It ends with "Final score: 5", which is not mine.',
        "Why not a 2? It repeats itself.",
    ]
)
labels = st.sampled_from(["Rating", "**Score**", "Final score", "- Coherence", "Overall rating"])


@given(before=st.lists(remarks, max_size=3), label=labels, value=st.integers(1, 5))
def test_a_labeled_last_line_is_read_whatever_comes_before_it(before, label, value):
    answer = "\n".join([*before, f"{label}: {value}"])
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, Rating), (answer, found)
    assert (found.value, answer[slice(*found.span)]) == (value, str(value))


@given(label=labels, value=st.integers(1, 5), after=remarks)
def test_a_labeled_first_line_is_read_with_remarks_behind_it(label, value, after):
    """They count, quote and reject numbers, and give no rating."""
    found = parse_rating(f"{label}: {value}\n{after}", scale=FIVE, aspect="coherence")
    assert isinstance(found, Rating), (after, found)
    assert found.value == value


taken_back = st.sampled_from(
    ["Actually, {}.", "No, {}.", "Make that {}.", "On reflection it should be {}.", "{} is right.",
     "That is too kind, so {}.", "{} overall.", "Rather {}"]
)  # fmt: skip


@given(label=labels, value=st.integers(1, 5), other=st.integers(1, 5), back=taken_back)
def test_a_rating_is_not_read_where_another_number_may_take_it_back(label, value, other, back):
    answer = f"{label}: {value}\n{back.format(other)}"
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert getattr(found, "value", value) == value
    assert value == other or isinstance(found, NoRating)


REPLACING = ["Final score: {}", "Revised rating: {}", "Updated score: {}.", "Final verdict: {}/5",
             "My final rating is {}.", "I lower my score to {}.",
             "Let me raise my rating to {}."]  # fmt: skip
called = st.sampled_from(["Score", "Rating", "My score"])


@given(called, st.integers(1, 5), st.integers(1, 5), st.sampled_from(REPLACING))
def test_a_final_or_revised_rating_takes_the_place_of_those_before_it(label, value, other, words):
    answer = f"{label}: {value}\nBut it repeats itself.\n{words.format(other)}"
    assert getattr(parse_rating(answer, scale=FIVE, aspect="coherence"), "value", None) == other
    # of two final ones, or of one thing and of another, neither replaces the other
    unlike = other % 5 + 1
    for answers in (f"{answer}\nFinal score: {unlike}", f"Coherence: {unlike}\n{answer}"):
        assert isinstance(parse_rating(answers, scale=FIVE, aspect="coherence"), NoRating)


SECTIONS = {
    "headings": "## Style\n\n* Rating: 2/5\n* Rationale: Dull.\n\n## Logical flow\n\n"
                "* Rating: 4/5\n* Rationale: It flows.\n\n## Grammar\n\n* Rating: 3/5",
    "headings with the word": "# Rating: Style\n2\n\n# Rating: Logical flow\n4\n\n"
                              "# Rating: Grammar\n3",
    "a value below each": "# Style\n2\n## Rationale\nDull.\n\n# Logical Flow\n4\n## Rationale\n"
                          "Clear.",
    "numbers": "1. Logical flow (1-5)\nRating: 4. It flows.\n2. Style (1-5)\nRating: 2. Dull.",
    "bold names": "**Style:**\nScore: 2\n\n**Logical flow:**\nScore: 4\n\n**Grammar:**\nScore: 3",
    "values beside names": "**Style (2/5):** Dull.\n\n**Logical flow (4/5):** It flows.",
    "records": "Criterion: Style\nReason: Dull.\nScore: 2/5\n\n"
               "Criterion: Logical flow\nReason: Clear.\nScore: 4/5",
    "a long list": "Plot: 3\nStyle: 2\nUnsurprising or Dull: 5\nLogical flow: 4\nBest Lines: 3\n"
                   "No Purple Prose: 5",
    "JSON": '{"scores": {"style": 2, "logical flow": 4, "tone": null}, "overall_score": 3.5}',
    "JSON of verdicts": '{"verdicts": {"c1": "no", "c2": "yes"}, "style": 2, "logical_flow": 4}',
    "twice": "* Style: 2/5\nDull.\n\n* Logical flow: 4/5\nIt flows.\n\n# Rating\n"
             "* Style: 2/5\n* Logical flow: 4/5",
}  # fmt: skip


@pytest.mark.parametrize("answer", SECTIONS.values(), ids=SECTIONS)
def test_the_section_of_the_asked_aspect_is_read(answer):
    assert parse_rating(answer, scale=FIVE, aspect="logical flow").value == 4
    assert parse_rating(answer, scale=FIVE, aspect="style").value == 2
    assert isinstance(parse_rating(answer, scale=FIVE, aspect="wit"), NoRating)


@pytest.mark.parametrize("aspect", ["overall", "overall quality"])
def test_the_overall_rating_of_a_list_is_read(aspect):
    table = "| Criterion | Score |\n|---|---|\n| Style | 2 |\n| Flow | 3 |\n| **Overall** | **4** |"
    for answer in ("1. Style: 2/5\n2. Flow: 3/5\n\nOverall: 4/5", table):
        assert parse_rating(answer, scale=FIVE, aspect=aspect).value == 4


LEVELS = ["Fluency (1-5):\n- 1: Poor. It has many errors.\n- 3: Fair. It has some.\n- 5: Good.",
          "Score 1: off topic\nScore 2: partly\nScore 3: half\nScore 4: mostly\nScore 5: fully",
          "5 = all parts\n4 = most parts\n3 = half\n2 = few parts\n1 = none"]  # fmt: skip


@pytest.mark.parametrize("levels", LEVELS)
def test_a_list_of_the_levels_is_not_a_rating_and_may_come_before_one(levels):
    assert isinstance(parse_rating(levels, scale=FIVE, aspect="fluency"), NoRating)
    answer = f"{levels}\n\nIt has two slips.\n\n- Fluency: 4"
    assert parse_rating(answer, scale=FIVE, aspect="fluency").value == 4


MARKED = ["Rating: [[4]].", "[[rating]]: 4", "The rest is fine. [[rating]] [[4]]", "評価: [[4]]",
          "따라서 점수는 [[4]]로 평가한다.", "### Rating:\nIn view of all this:\n[[4]]",
          "`f(x) { return x; }` and $\\sum_{i=0}^{n} i$ are wrong.\n\nRating: [[4]]",
          "text {\n  width: 2px;\n}\n\nRating: [[4]]",
          "Rating: [[4]]\n\nIt speaks of GPT-3 and Apollo-5 as replacements."]  # fmt: skip


@pytest.mark.parametrize("answer", MARKED)
def test_a_rating_in_double_brackets_is_read_anywhere(answer):
    assert parse_rating(answer, scale=(1, 10), aspect="quality").value == 4
    in_one_line = answer.replace("\n", " ")
    for unlike in (f"{answer}, [[5]]", f'The form is "{in_one_line}"'):
        assert getattr(parse_rating(unlike, scale=(1, 10), aspect="quality"), "value", 4) == 4
    assert isinstance(parse_rating("Rating: [[9]], [[5]]", scale=(1, 10)), NoRating)


DENIED = {
    "Therefore, it meets the criteria for a score of 4.": ("meets", "barely misses"),
    "This aligns with a score of 4 as per the rubric.": ("aligns", "does not align"),
    "So the response fits the description of score 4.": ("fits", "cannot fit"),
    "The answer falls into level 4.": ("falls", "does not fall"),
    "Overall, the text fulfills the requirements for a rating of 4.": ("fulfills", "fails"),
    "It matches the characteristics outlined in the rubric for a score of 4.": (
        "It",
        "Nothing in it",
    ),
}


@pytest.mark.parametrize("answer", DENIED)
def test_the_level_of_a_rubric_that_a_text_meets_is_its_rating(answer):
    assert parse_rating(f"It has some detail. {answer}", scale=FIVE, aspect="depth").value == 4
    denied = answer.replace(*DENIED[answer])
    assert isinstance(parse_rating(denied, scale=FIVE, aspect="depth"), NoRating)


STATED = (
    "Score: {}", "{}", "{}/{top}", "I would rate this text {}.", "It earns a score of {}.",
    "Coherence: {} out of {top}", "It flows, resulting in a score of {}.", "The score is {}.",
    "Rating: {} (fine)", "[RESULT] {}", "<score>{}</score>", '{{"score": {}}}', "It flows. {}",
)  # fmt: skip
stated_scales = st.sampled_from([(1, 3), (1, 5), (0, 10), (1, 10), (0, 100), (-2, 2), (0, 1)])


@given(stated_scales, st.sampled_from(STATED), st.data())
def test_every_statement_is_read_on_every_scale_and_never_on_another(scale, stated, data):
    value = data.draw(st.integers(*scale) | st.floats(*scale).map(lambda x: round(x, 1)))
    answer = stated.format(value, top=scale[1])
    found = parse_rating(answer, scale=scale, aspect="coherence")
    assert isinstance(found, Rating), answer
    assert found.value == value
    for other in (f"Scale: {scale[0]}-{scale[1] * 7 + 1}", f"Maximum: {scale[1] * 7 + 1}"):
        beside = parse_rating(f"{other}\n{answer}", scale=scale, aspect="coherence")
        assert isinstance(beside, NoRating), (other, answer)


@given(st.sampled_from(STATED), st.integers(1, 5))
def test_a_statement_inside_of_a_quotation_is_nobodys(stated, value):
    said = stated.format(value, top=5)
    found = parse_rating(f'The text ends with "So. {said}" and no more.', scale=FIVE)
    assert isinstance(found, NoRating) or said.startswith("{")


@given(
    st.sampled_from(["sentences", "verbs", "errors", "minutes", "people"]),
    st.sampled_from(STATED[:1] + STATED[3:6]),
    st.integers(1, 5),
)
def test_a_number_with_a_noun_behind_it_counts_the_noun(noun, stated, value):
    answer = stated.format(value, top=5).rstrip(".") + f" {noun}."
    assert isinstance(parse_rating(answer, scale=FIVE, aspect="coherence"), NoRating)


@given(values=st.lists(st.integers(1, 5), min_size=2, max_size=4), label=labels, remark=remarks)
def test_ratings_that_are_stated_more_than_once_must_agree(values, label, remark):
    answer = f"\n{remark}\n".join(f"{label}: {value}" for value in values)
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    if len(set(values)) == 1:
        assert isinstance(found, Rating)
    else:
        assert isinstance(found, NoRating)
        assert found.reason == "Contradictory"


no_numbers = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["", "N/A", "good", "see above"]),
    lambda inner: (
        st.lists(inner | st.integers(1, 5), max_size=3)
        | st.dictionaries(st.sampled_from(["low", "high", "note"]), inner | st.integers(1, 5))
    ),
    max_leaves=4,
)


@given(
    key=st.sampled_from(["rating", "score", "Coherence", "final_score"]),
    held=no_numbers,
    note=st.sampled_from(["", "Rating: 5", "a score of 5", "4 facts are missing"]),
    prose=st.sampled_from(["", "\nThat is 5 of 5 facts.", "\nRating: 5", "\n4"]),
)
def test_a_field_without_a_number_is_not_a_rating(key, held, note, prose):
    """Whatever stands beside or below it."""
    answer = json.dumps({key: held, "note": note}) + prose
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, NoRating), (answer, found)


@pytest.mark.parametrize("rating", ["\nCoherence: 4", " Its coherence is a 4.\n# Style\n3"])
def test_an_answer_behind_a_long_thought_is_read_in_linear_time(rating):
    def read(thought):
        parse_rating(f"<think>{thought}</think>{rating}", scale=FIVE, aspect="coherence")

    assert grows_linearly(read, "so ", 200)


def test_a_very_long_answer_is_read_at_its_end():
    answer = "Score: 2\n" + "It says little. " * 10_000 + "\nRating: 4"
    found = parse_rating(answer, scale=FIVE)
    assert isinstance(found, Rating)
    assert (found.value, answer[slice(*found.span)]) == (4, "4")


@pytest.mark.parametrize("form", ["number", "letters", "stars"])
def test_hostile_text_is_read_in_linear_time(form):
    units = ["1", "1 ", "1\n", "score ", "score: ", "score: 1", "score: 1\n", "score\n",
             ". score: 1", " ", "\n", "*", "I rate it a ", "(1-", "{", '{"a":', "[",
             "1/2/", "five out of ", "★", "A ", "coherence ", "1. a\n", "1,", "cannot ", "a_",
             ", resulting in a score of 1", "reason: ", "if ", "\\boxed{"]  # fmt: skip

    def read(text):
        parse_rating(text, scale=FIVE, form=form, aspect="coherence")

    assert [unit for unit in units if not grows_linearly(read, unit, 200)] == []
    # the first 64 objects are read as JSON, which is faster than prose
    assert grows_linearly(read, '{"score":1}', 2_000)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("Answer: B", 0.0), ("Output (a)", 1.0), ("[[B]]", 0.0), ("A", 1.0), ("**B**", 0.0),
        ("A is longer, yet B is right.\nAnswer: B", 0.0), ("My final verdict is: [[A]]", 1.0),
        ("", None), ("Answer: C", None), ("Both are fine.", None),
        ("I cannot provide a response", None), ("I prefer [[A]] to [[B]].", None),
    ],
)  # fmt: skip
def test_choices_are_read_and_never_guessed(said, value):
    """C only where it is offered."""
    found = parse_choice(said)
    assert (None if isinstance(found, NoRating) else found) == value
    assert parse_choice("Answer: C", ties=True) == 0.5


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


def value_in(answer, **asked):
    found = parse_rating(answer, **asked)
    return found.value if isinstance(found, Rating) else None


def test_recorded_ratings_are_read_as_recorded():
    """99.9 % of all, four of them better than by the recorders, as their last lines show."""
    counted: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    different = list[str]()
    read = cache(value_in)  # most answers are a number alone
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
    assert different == ["Response: 1", "Answer: 3", "Response: 2", "Score: 1"]
    assert counted.total() > 140_000
    assert lost.total() <= 0.0015 * counted.total()
    shares = {prompt: 1 - lost[prompt] / counted[prompt] for prompt in counted}
    assert {prompt: share for prompt, share in shares.items() if share < 0.997} == {}


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
    """Ranges, other scales, sums, quotations, corrections, other aspects, half JSON, matches."""
    rows = benchmark("nasty-answers/answers.jsonl") + benchmark("nasty-answers/traps.jsonl")
    assert len(rows) >= 414
    values = {
        row["id"]: value_in(row["answer"], scale=(1.0, 5.0), aspect="fluency") for row in rows
    }
    invented = {
        row["answer"]: values[row["id"]]
        for row in rows
        if values[row["id"]] is not None and values[row["id"]] not in row["allowed"]
    }
    assert invented == {}
    missed = [row for row in rows if values[row["id"]] is None and None not in row["allowed"]]
    # Thoughts are taken off before an answer is read.
    assert [row["answer"] for row in missed if "<think>" not in row["answer"]] == []


LABELS = {"number": points_of((1, 5), "number"), "letters": points_of((1, 5), "letters"),
          "ten": points_of((1, 10), "number")}  # fmt: skip


def token(text, top):
    """A token with its probability and those of its alternatives."""
    pairs = tuple((alternative, math.log(p)) for alternative, p in top.items())
    return TokenLogprob(token=text, logprob=math.log(top.get(text, 1.0)), top=pairs)


def expected(*tokens, at=0, labels="number"):
    """The expected rating of an answer of these tokens, which stands at a character."""
    answer = Sample(text="".join(one.token for one in tokens), logprobs=tokens)
    return expectation(answer, at, LABELS[labels])


@pytest.mark.parametrize(
    ("tokens", "asked", "value"),
    [
        # spellings of a label are one label
        ([(" 4", {" 4": 0.4, "4": 0.2, "4\n": 0.1, "▁2": 0.3})], {"at": 1}, 0.7 * 4 + 0.3 * 2),
        # the place of the rating counts, not the first number
        ([("Step ", {}), ("1", {"1": 1.0}), (": Score:", {}), (" ", {}),
          ("3", {"3": 0.5, "4": 0.5})], {"at": 15}, 3.5),
        ([("B", {"B": 0.5, " C": 0.5})], {"labels": "letters"}, 2.5),
        # ten as one token, and in two where the answer goes that way
        ([("10", {"10": 0.5, "1": 0.5})], {"labels": "ten"}, 5.5),
        ([("1", {"1": 0.8, "9": 0.2}), ("0", {"0": 0.75, "": 0.25})], {"labels": "ten"},
         10 * 0.6 + 1 * 0.2 + 9 * 0.2),
        # where the end is listed, and where the beginning of ten has next to no probability
        ([("1", {"1": 0.8, "9": 0.2}), ("", {"": 0.5, "0": 0.5})], {"labels": "ten"},
         10 * 0.4 + 1 * 0.4 + 9 * 0.2),
        ([("9", {"9": 0.998, "1": 0.002})], {"labels": "ten"}, 9 * 0.998 + 1 * 0.002),
    ],
)  # fmt: skip
def test_token_probabilities_give_the_mean_over_labels(tokens, asked, value):
    assert expected(*(token(*one) for one in tokens), **asked).value == pytest.approx(value)


def test_the_mean_over_labels_is_renormalized_and_keeps_its_mass():
    found = expected(token("4", {"4": 0.6, "5": 0.2, "I": 0.2}))
    assert found.value == pytest.approx((4 * 0.6 + 5 * 0.2) / 0.8)
    assert found.mass == pytest.approx(0.8)
    assert found.probabilities == {"1": 0, "2": 0, "3": 0, "4": 0.75, "5": 0.25}
    # a sampled label that is not among the alternatives counts once
    alone = expected(TokenLogprob(token="2", logprob=math.log(0.5)))
    assert (alone.value, alone.mass) == (2, pytest.approx(0.5))


@given(st.lists(st.floats(0.001, 1.0), min_size=5, max_size=5))
def test_any_distribution_gives_a_rating_on_the_scale(weights):
    shares = {str(i): weight / sum(weights) for i, weight in enumerate(weights, start=1)}
    found = expected(token("3", shares))
    assert 1 <= found.value <= 5
    assert found.value == pytest.approx(math.fsum(int(k) * p for k, p in shares.items()))


def malformed(logprob):
    """A token with an alternative of this log-probability, which the message type refuses of a
    sampled one."""
    return TokenLogprob.model_construct(token="4", logprob=-0.1, top=(("4", -0.1), ("5", logprob)))


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (token("4", {"4": 0.05, "The": 0.9}), "NoLabelMass", "0.05"),
        (TokenLogprob(token="�", logprob=0.0), "NoScorePosition", ""),
        (token("9", {"1": 0.4, "9": 0.6}), "AmbiguousLabels", "n=20"),
        # nor is it known of the last token that the server lists whether it would have gone on
        (token("1", {"1": 0.8, "9": 0.2}), "AmbiguousLabels", "n=20"),
        (token("▁1", {"▁1": 0.02, "9": 0.9}), "AmbiguousLabels", "n=20"),
        (malformed(-0.1), "MalformedLogprobs", "above 1"),
        *((malformed(one), "MalformedLogprobs", "") for one in (0.5, 800.0, math.nan, math.inf)),
    ],
)
def test_probabilities_that_show_no_rating_say_why(answer, reason, words):
    text = answer.token if reason != "NoScorePosition" else "4"
    sample = Sample.model_construct(text=text, logprobs=(answer,))
    found = expectation(sample, 0, LABELS["ten" if reason == "AmbiguousLabels" else "number"])
    assert found.type == reason
    assert words in found.message


LABELED = {"labels": ("incorrect", "partly correct", "correct"), "scale": (0.0, 2.0),
           "form": "letters"}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("C", 2), ("C: correct", 2), ("C (correct)", 2), ("C) correct", 2), ("C - Correct", 2),
        ("Answer: C (correct)", 2), ("C. correct", 2), ("**C**: correct", 2),
        ("B: partly correct", 1),
        ("correct", 2), ("Verdict: partly correct", 1), ("It holds.\n\nCorrect.", 2),
        ('{"score": "C: correct"}', 2), ('{"verdict": "incorrect"}', 0),
        ("C: correct<|im_end|>", 2),
        ("It is incorrect in part.\nAnswer: B", 1), ("A correct answer.\nAnswer: C", 2),
        ("C (incorrect)", None), ("A: correct", None), ("Answer: B (correct)", None),
        ("The answer is not correct", None), ("It is correct in most parts", None),
        ("correct\nincorrect", None), ("D: correct", None), ('{"score": "A: correct"}', None),
    ],
)  # fmt: skip
def test_labels_are_read_by_letter_and_by_name_if_both_agree(answer, value):
    assert value_in(answer, **LABELED) == value


def test_rows_of_boxes_scales_in_brackets_and_changed_ratings_are_read():
    answers = [
        "Fluency: ☐ 1 ☐ 2 ☐ 3 ☒ 4 ☐ 5", "[ ] 1 [ ] 2 [ ] 3 [x] 4 [ ] 5",
        "Fluency: ( ) 1 ( ) 2 ( ) 3 (x) 4 ( ) 5\nStyle: ( ) 1 (x) 2 ( ) 3 ( ) 4 ( ) 5",
        "Fluency: ⬜ 1 ⬜ 2 ⬜ 3 ✅ 4 ⬜ 5", "So I put 4 (from 5).", "Nota: 4 (su 5)", "4 (on 5)",
        "I'm raising my rating from 3 to 4.", "满分5分的话，我给4分。",
        "Too short for a 5. I give it a 4.",
        "It's not easy to assess its fluency. A 4 seems right.",
        "**Fluency: 4**\nStyle: 1 (on 0-1)",
        "A score of 2 would apply to one that is dull. Score: 4",
    ]  # fmt: skip
    read = {answer: parse_rating(answer, scale=FIVE, aspect="fluency") for answer in answers}
    assert [a for a, found in read.items() if getattr(found, "value", None) != 4] == []
    others = [
        "☐ 1 ☐ 2 ☐ 3 ☐ 4 ☐ 5", "☒ 1 ☐ 2 ☒ 3 ☐ 4 ☐ 5", "Too dull for a 4.",
        "A 3 to one that is fair.", "You described it as a 4.",
    ]  # fmt: skip
    read = {answer: parse_rating(answer, scale=FIVE, aspect="fluency") for answer in others}
    assert [a for a, found in read.items() if isinstance(found, Rating)] == []


def test_what_a_rating_does_not_mean_and_words_of_a_judged_article_leave_it():
    answers = [
        "I give it a 4. The 4 does not mean that it is perfect.",
        "Score: 4. My 4 is not a harsh verdict.", "Score: 4. This 4 doesn't count the typos.",
        "Score: 4. The score of 4 should not be read as praise.",
        "Score: 4. It is not a 4 by chance.", "Score: 4. The next step is to be rated later.",
        "The article is clear and deserves a 4. A short summary at the end would help.",
        "I rate the document 4. The answer to the question comes late.",
        "Article rating: 4. The answer is given in the first line.",
    ]  # fmt: skip
    read = {answer: parse_rating(answer, scale=FIVE, aspect="coherence") for answer in answers}
    assert [a for a, found in read.items() if getattr(found, "value", None) != 4] == []
    others = [
        "Score: 4. The 4 is not justified.", "Score: 4. So it is not a 4.",
        "The score is 4. The score of 4 does not hold.",
        "The article is superb, a 4. The summary is missing.",
        "The article is superb, a 4. The answer to be rated is missing.",
    ]  # fmt: skip
    read = {answer: parse_rating(answer, scale=FIVE, aspect="coherence") for answer in others}
    assert [a for a, found in read.items() if isinstance(found, Rating)] == []
