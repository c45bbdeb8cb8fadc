"""Plans as models write them: names are found whatever stands around them, and what is wrong is
said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.reading.plan import matching, parse_plan

CRITERIA = ("coherence", "consistency", "fluency")
TOOLS = ("nli", "bleurt", "sum_bleurt")
STEPS = "\n\nSteps:\n1. Read both.\n2. Rate."
WANTED = {"coherence": ("sum_bleurt",), "consistency": ("nli", "bleurt"), "fluency": ()}

USABLE = {
    "as asked for": "Assistant evaluators:\n- Coherence: sum_bleurt\n- Consistency: nli, bleurt\n"
    "- Fluency: none",
    "bold, with scales": "- **Coherence (1-5)**: SUM_BLEURT\n"
    "- **Consistency (1-5):** NLI & BLEURT\n- **Fluency**: no",
    "numbered": "1. Coherence: [sum-bleurt]\n2. Consistency: [NLI and BLEURT]\n3. Fluency: [none]",
    "with reasons": (
        "- Coherence: sum_bleurt (trained on summaries)\n"
        "- Consistency: nli, bleurt because both compare facts\n"
        "- Fluency: none of the evaluators speaks to grammar, so read closely"
    ),
    "score words": "Coherence: SUM_BLEURT score\nConsistency: NLI score, BLEURT score\n"
    "Fluency: N/A",
    "nested": "- Coherence:\n  - sum_bleurt\n- Consistency:\n  - NLI: facts\n  - BLEURT\n"
    "- Fluency:\n  - none",
    "arrows": "Coherence -> sum_bleurt\nConsistency → nli / bleurt\nFluency -> manual evaluation",
    "a table": "| Coherence | sum_bleurt |\n|---|---|\n| Consistency | nli, bleurt |\n"
    "| Fluency | none |",
    "German words": "Prüfer:\n- Coherence: sum_bleurt\n- Consistency: nli, bleurt\n"
    "- Fluency: keine",
    "Chinese words": "评估器：\n- coherence：sum_bleurt\n- consistency：nli、bleurt\n- fluency：无",
}


@pytest.mark.parametrize("text", USABLE.values(), ids=USABLE)
def test_usable_plans(text):
    reading = parse_plan(text + STEPS, CRITERIA, TOOLS)
    assert reading.problems == ()
    assert reading.assistants == WANTED
    assert reading.steps == ("Read both.", "Rate.")


def test_steps_keep_the_lines_below_them_and_name_criteria_freely():
    text = (
        USABLE["as asked for"]
        + "\n\n**Steps**\n1. Coherence: read it.\n   - Look at the order.\n2) Fluency: reread."
    )
    reading = parse_plan(text, CRITERIA, TOOLS)
    assert reading.assistants == WANTED
    assert reading.steps == ("Coherence: read it. Look at the order.", "Fluency: reread.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "- Coherence: rouge\n- Consistency: nli\n- Fluency: none",
            "'rouge' for coherence, which does not exist",
        ),
        (
            "- Coherence: nli\n- Consistency: nli\n- Fluency: none\n- Accuracy: nli",
            "the criterion 'Accuracy'",
        ),
        (
            "- Coherence: nli\n- Fluency: none",
            "does not say which assistant evaluators serve consistency",
        ),
        ("- 连贯性：nli\n- 一致性：bleurt\n- 流畅性：无", "serve coherence, consistency, fluency"),
        (
            "First I would read the summary, and then use NLI for its facts.",
            "serve coherence, consistency, fluency",
        ),
        ("Rating: 3", "has no numbered steps"),
        ("", "has no numbered steps"),
    ],
)
def test_what_is_wrong_is_said(text, problem):
    steps = "" if "steps" in problem else STEPS
    assert any(problem in said for said in parse_plan(text + steps, CRITERIA, TOOLS).problems)


def test_names_match_whatever_their_case_and_hyphens():
    assert matching("SUM-BLEURT", TOOLS) == "sum_bleurt"
    assert matching("rougel", ["rougeL"]) == "rougeL"
    assert matching("sum", TOOLS) is None


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    reading = parse_plan(text, CRITERIA, TOOLS)
    assert set(reading.assistants) <= set(CRITERIA)
    assert {tool for tools in reading.assistants.values() for tool in tools} <= set(TOOLS)


def test_a_long_text_takes_no_long_time():
    reading = parse_plan(
        "- Coherence: " + "nli and " * 20_000 + "\n" * 20_000 + "1. " * 20_000, CRITERIA, TOOLS
    )
    assert {tool for tools in reading.assistants.values() for tool in tools} <= {"nli"}
