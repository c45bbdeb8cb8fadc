"""What is read out of answers, whatever their shape: JSON in prose, ratings of several aspects by
name, lists, and Fusion-Eval's plans."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.agents.reading.joint import parse_joint
from textassay.agents.reading.json_in_prose import JsonObject, find_json
from textassay.agents.reading.lists import ListItem, matching, parse_listing, parse_statements
from textassay.agents.reading.outcomes import NoRating
from textassay.agents.reading.plans import parse_plan
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect

NAMES = ("Relevance", "Logical flow", "Tone (voice)")
ASPECTS = tuple(Aspect(name=name, definition="d") for name in NAMES)
CRITERIA = ("coherence", "consistency", "fluency")
TOOLS = ("nli", "bleurt", "sum_bleurt")
HOSTILE = {
    "JSON": (lambda text: list(find_json(text)), 2_500,
             ["[", "{", '{"a":', '[{"', "[1,", "{x}", '{"a":1}', "[[1],"]),
    "damaged JSON": (lambda text: list(find_json("{'a': " + text, lenient=True)), 1_000,
                     ["\n", '"\n', '" ', "// ", "/ ", ", ", "/* x */", '{"a": ', "{{", "'a', "]),
    "ratings": (lambda text: parse_joint(text, ASPECTS), 1_000,
                ["Relevance: ", "a: 3, ", "1. ", "| 4 ", "{", "a: 4\n", " \n", "Relevance\n", "★"]),
    "lists": (parse_listing, 1_000,
              ["1. ", "- a: ", "**", "a:", "| a ", "[", "# a\n", "(", " \n", "1. a: b\n"]),
}  # fmt: skip


@pytest.mark.parametrize("reader", HOSTILE)
def test_hostile_text_is_read_in_linear_time(reader):
    read, length, units = HOSTILE[reader]
    assert [unit for unit in units if not grows_linearly(read, unit, length)] == []


@given(st.text(max_size=400), st.integers(1, 5))
def test_any_text_is_read_and_yields_only_what_there_may_be(text, most):
    assert all(value is None or 1 <= value <= 5 for value in read(text))
    entries = parse_listing(text, most=most).entries
    assert len(entries) <= most
    assert len({slug(entry.name) for entry in entries}) == len(entries)
    assert all(entry.name.strip() and entry.definition.strip() for entry in entries)
    statements = parse_statements(text) or ()
    assert all(one.strip() for one in statements)
    assert len({one.casefold() for one in statements}) == len(statements)
    plan = parse_plan(text, CRITERIA, TOOLS)
    assert set(plan.assistants) <= set(CRITERIA)
    assert {tool for tools in plan.assistants.values() for tool in tools} <= set(TOOLS)


values = st.dictionaries(
    st.text(max_size=5), st.integers() | st.text(max_size=8) | st.none() | st.booleans(), max_size=3
)


@given(
    held=st.lists(values, min_size=1, max_size=3),
    between=st.sampled_from(["", "Here: ", "\n```json\n", " see [1] and {x} ", "\n\n"]),
)
def test_json_is_found_anywhere_in_the_answer(held, between):
    text = between + between.join(json.dumps(value) for value in held) + between
    found = [one for one in find_json(text) if isinstance(one.value, dict)]
    assert [one.value for one in found] == held
    assert [json.loads(text[one.start : one.end]) for one in found] == held


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("no JSON", []), ("{x} [a] (b)", []), ('{"a": {"b": 1}, "c": ', []),
        ('{"a": NaN}', [{"a": None}]), ('{"a": 1' + "0" * 5000 + "}", [{"a": 1e299}]),
        ('{"a": "two\nlines"}', [{"a": "two\nlines"}]),
        ('{"a": ' + "[" * 900 + "]" * 900 + "}", []),
    ],
)  # fmt: skip
def test_json_that_cannot_be_read_gives_nothing_and_no_parts(text, values):
    assert [one.value for one in find_json(text)] == values


def test_a_key_that_occurs_twice_is_remembered():
    (found,) = find_json('{"a": 1, "b": 2, "a": 3, "b": 2}')
    assert isinstance(found.value, JsonObject)
    assert dict(found.value.contradicted) == {"a": 1}


def test_lists_joint_answers_and_plans_share_it():
    """All three read JSON behind a reference in brackets, in a fence, and one object per line."""
    prose = "As [1] has it:\n```json\n{}\n```\nDone."
    entry = {"name": "Flow", "definition": "It flows."}
    for held in (json.dumps([entry]), json.dumps(entry), json.dumps({"aspects": [entry]})):
        assert parse_listing(prose.replace("{}", held)).entries == (ListItem("Flow", "It flows."),)
    aspects = (Aspect(name="flow", definition="d"), Aspect(name="grammar", definition="d"))
    for held in ('{"flow": 4, "grammar": 2}', '{"flow": {"score": 4}}\n{"grammar": "2"}'):
        assert parse_joint(prose.replace("{}", held), aspects).ratings == (4.0, 2.0)
    twice = parse_joint('{"flow": 4, "flow": 5, "grammar": 2}', aspects).ratings
    assert "more than once" in twice[0].message
    assert twice[1] == 2
    plan = {"assistants": {"flow": ["NLI", "bleurt"], "grammar": []}, "steps": ["Read.", "Rate."]}
    found = parse_plan(
        prose.replace("{}", json.dumps(plan)), ("flow", "grammar"), ("nli", "bleurt")
    )
    assert found.assistants == {"flow": ("nli", "bleurt"), "grammar": ()}
    assert (found.steps, found.problems) == (("Read.", "Rate."), ())


def read(answer, form="number"):
    found = parse_joint(answer, ASPECTS, form)
    return [None if isinstance(item, NoRating) else item for item in found.ratings]


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("number", "Relevance: 4\nLogical flow: 3\nTone (voice): 5"),
        ("number", "Tone (voice): 5\nLogical flow: 3\nRelevance: 4"),
        ("number", "1. Relevance (1-5): 4/5\n2. **Logical Flow**: 3\n3. Tone: 5"),
        ("number", "Relevance: 4 Explanation: 2 slips.\nLogical flow score: 3 out of 5\n"
                   "Tone: **5**"),
        ("number", "### Relevance\nScore: 4\nReason: 3 topics: all good.\n\n### Logical flow\n"
                   "Rating: 3\n### Tone\n**5**"),
        ("number", "Relevance\nScore: 4 Explanation: 3 topics.\n\nLogical flow\nScore: 3 "
                   "Explanation: So so.\n\nTone\nScore: 5 Explanation: Fine.\n\nThat is all."),
        ("number", "| Aspect | Score |\n|---|---|\n| Relevance | 4 |\n| Logical flow   | 3 |\n"
                   "| Tone (voice) | 5 |"),
        ("number", '{"relevance": 4, "logical_flow": {"reason": "not 5", "score": 3},'
                   ' "tone_voice": "5"}'),
        ("number", '```json\n{"Relevance": 4, "Logical flow": "3/5", "Tone (voice)": 5}\n```'),
        ("number", '{"note": "3 slips"}\nRelevance: 4\nLogical flow: 3\nTone: 5'),
        ("number", "{'relevance_score': 4, 'logical_flow': {'value': 3, 'errors': 2}, 'tone': 5,}"),
        ("number", '{"my": {"relevance": 4, "tone": 5, "logical flow": [{"score": 3}]}}'),
        ("number", '{"weights": {"tone": 1}, "list": [{"aspect": "Relevance", "score": 4, "n": 2},'
                   ' {"name": "Logical flow", "rating": 3}, {"metric": "tone", "result": 5}]}'),
        ("letters", "Relevance: D\nLogical flow: C.\nTone (voice): (E)"),
        ("stars", "Relevance: 4 stars\nLogical flow: ★★★\nTone (voice): 5"),
    ],
)  # fmt: skip
def test_ratings_are_read_by_name(form, answer):
    assert read(answer, form) == [4, 3, 5]
    assert parse_joint(answer, ASPECTS, form).invented == ()


@given(
    st.permutations(range(3)),
    st.lists(st.integers(1, 5) | st.none(), min_size=3, max_size=3),
)
def test_what_is_left_out_has_no_rating_and_the_order_of_the_rest_does_not_matter(order, values):
    lines = [f"{i + 1}. {NAMES[i]}: {values[i]}" for i in order if values[i] is not None]
    assert read("\n".join(lines)) == values


def test_an_unrequested_aspect_is_reported_and_given_to_no_other():
    found = parse_joint("Relevance: good\nHumour: 3\nLogical flow: 2\nOverall: 5", ASPECTS)
    assert isinstance(found.ratings[0], NoRating)
    assert found.ratings[1] == 2
    assert [item["text"] for item in found.invented] == ["Humour: 3", "Overall: 5"]
    found = parse_joint(
        "Relevance\n(cannot tell)\n\n**Charm**\nScore: 5 Explanation: Lovely.\n\nLogical flow\n"
        "Score: 2",
        ASPECTS,
    )
    assert isinstance(found.ratings[0], NoRating)
    assert found.ratings[1] == 2
    assert [note["text"] for note in found.invented] == ["Charm: Score: 5 Explanation: Lovely."]


@pytest.mark.parametrize(
    "beside",
    ["4 - 2 slips", "3-4", "at least 4", "4/10", "3 errors", ">4", "4?"],
)
def test_an_unclear_rating_beside_a_name_is_not_read(beside):
    assert read(f"Relevance: {beside}\nLogical flow: 3\nTone: 5") == [None, 3, 5]
    assert read(f'{{"relevance": "{beside}", "logical_flow": 3, "tone_voice": 5}}') == [None, 3, 5]


def test_ratings_without_a_rater_in_conflict_or_off_the_scale_are_left_out():
    assert read("4\n3\n5") == read("[4, 3, 5]") == [None] * 3
    assert read("Relevance: 4\nLogical flow: 3\nRelevance: 4") == [4, 3, None]
    twice = parse_joint("Relevance: 4\nRelevance: 2", ASPECTS)
    assert "more than once, as 2 and 4" in twice.ratings[0].message
    aspects = (ASPECTS[0], ASPECTS[1].model_copy(update={"scale": (0.0, 1.0)}))
    for off_scale in ("Relevance: 9", "Relevance (1-10): 4", "### Relevance (1-10)\nScore: 4"):
        off, on = parse_joint(f"{off_scale}\nLogical flow: 1", aspects).ratings
        assert (off.reason, on) == ("OffScale", 1)
    declined = parse_joint("I'm sorry, I cannot rate this.", ASPECTS)
    assert {item.reason for item in declined.ratings} == {"Declined"}


@pytest.mark.parametrize(
    "answer",
    [
        "1. Flow: it goes.\n2. Full stop: it ends.",
        "1) **Flow** - it goes.\n\n2) **Full stop** - it ends.",
        "**1. Flow**: it goes.\n**2. Full stop**: it ends.",
        "- **Flow:** it goes.\n- **Full stop:** it ends.",
        "• Flow — it goes.\n• Full stop — it ends.",
        "Flow: it goes.\nFull stop: it ends.",
        "Sure! Here are two aspects:\n\n1. Flow (1-5): it goes.\n2. Full stop (1-5): it ends.\n\n"
        "Note: they overlap.",
        "### 1. Flow\nit\ngoes.\n\n### 2. Full stop\n- Definition: it ends.\n\nI hope this helps!",
        "1. Flow\n\n   it goes.\n\n2. Full stop\n\n   it ends.",
        "Form:\n  1. Flow: it goes.\nEnd:\n  2. Full stop: it ends.",
        "| # | Aspect | Definition |\n|---|:---|---|\n| 1 | **Flow** | it goes. |\n"
        "| 2 | Full stop | it ends. |",
        '[{"name": "Flow", "definition": "it goes."}, {"aspect": "Full stop", "description": "it '
        'ends."}]',
        "Here:\n```json\n"
        '{"aspects": [{"Flow": "it goes."}, {"Full stop": "it ends."}]}\n```\nDone.',
        '{"Flow": "it goes.", "Full stop": {"definition": "it ends."}}',
    ],
)
def test_the_usual_shapes_of_a_list_are_read(answer):
    listing = parse_listing(answer)
    assert listing.entries == (ListItem("Flow", "it goes."), ListItem("Full stop", "it ends."))
    assert listing.dropped == ()


def test_names_and_definitions_may_be_in_any_script():
    listing = parse_listing("1、流暢性：文章是否流暢。\n2、一致性：與來源一致。")
    assert listing.entries == (
        ListItem("流暢性", "文章是否流暢。"), ListItem("一致性", "與來源一致。")
    )  # fmt: skip
    half = parse_listing("1. Flow \ud83d: it goes \ud83d\ude00.")  # half a surrogate pair
    assert half.entries == (ListItem("Flow \ufffd", "it goes 😀."),)


def test_what_cannot_be_used_of_a_list_is_kept_with_the_reason():
    answer = (
        "1. Flow: goes.\n2. FLOW: again.\n3. Coherence: itself.\n4. Empty:\n5. Stop: ends.\n"
        "6. More: too many."
    )
    listing = parse_listing(answer, most=2, unwanted=["coherence"])
    assert [entry.name for entry in listing.entries] == ["Flow", "Stop"]
    problems = [item["problem"] for item in listing.dropped]
    assert problems == ["duplicate", "the criterion itself", "no definition", "surplus"]
    assert listing.dropped[0]["text"] == "FLOW: again."


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "\n\n",
        "Coherence depends on many things, such as order. "
        "It also matters how sentences are joined.",
        "I'm sorry, I cannot help with that.",
        "1. The text should be clear.\n2. The text should be short.",
        "{}",
        "[1, 2]",
        '{"aspects": []}',
        "- - -\n* * *",
    ],
)
def test_prose_and_nothing_give_no_entries(answer):
    assert parse_listing(answer).entries == ()


@pytest.mark.parametrize(
    ("said", "statements"),
    [
        ("Here they are:\n1. A sat.\n2) B ran.\n2. B ran.", ("A sat.", "B ran.")),
        ("- **A sat.**\n* B ran.", ("A sat.", "B ran.")),
        ('{"claims": ["A sat.", "B ran."]}', ("A sat.", "B ran.")),
        ("None.", ()),
        ("1. None", ()),
        ("The text says that A sat.", None),
        ("", None),
    ],
)
def test_lists_of_claims_are_read(said, statements):
    assert parse_statements(said) == statements


def test_the_last_claim_of_an_answer_that_was_cut_off_is_left_out():
    assert parse_statements("1. A sat.\n2. B ra", cut=True) == ("A sat.",)


STEPS = "\n\nSteps:\n1. Read both.\n2. Rate."
WANTED = {"coherence": ("sum_bleurt",), "consistency": ("nli", "bleurt"), "fluency": ()}
PLANS = {
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


@pytest.mark.parametrize("text", PLANS.values(), ids=PLANS)
def test_usable_plans(text):
    found = parse_plan(text + STEPS, CRITERIA, TOOLS)
    assert (found.problems, found.assistants) == ((), WANTED)
    assert found.steps == ("Read both.", "Rate.")


def test_steps_keep_the_lines_below_them_and_name_criteria_freely():
    text = (
        PLANS["as asked for"]
        + "\n\n**Steps**\n1. Coherence: read it.\n   - Look at the order.\n2) Fluency: reread."
    )
    found = parse_plan(text, CRITERIA, TOOLS)
    assert found.assistants == WANTED
    assert found.steps == ("Coherence: read it. Look at the order.", "Fluency: reread.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- Coherence: rouge\n- Consistency: nli\n- Fluency: none",
         "'rouge' for coherence, which does not exist"),
        ("- Coherence: nli\n- Consistency: nli\n- Fluency: none\n- Accuracy: nli",
         "the criterion 'Accuracy'"),
        ("- Coherence: nli\n- Fluency: none",
         "does not say which assistant evaluators serve consistency"),
        ("- 连贯性：nli\n- 一致性：bleurt\n- 流畅性：无", "serve coherence, consistency, fluency"),
        ("First I would read the summary, and then use NLI for its facts.",
         "serve coherence, consistency, fluency"),
        ("Rating: 3", "has no numbered steps"),
        ("", "has no numbered steps"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_is_said(text, problem):
    steps = "" if "steps" in problem else STEPS
    assert any(problem in said for said in parse_plan(text + steps, CRITERIA, TOOLS).problems)


def test_names_match_whatever_their_case_and_hyphens_and_a_long_plan_takes_no_long_time():
    assert matching("SUM-BLEURT", TOOLS) == "sum_bleurt"
    assert matching("rougel", ["rougeL"]) == "rougeL"
    assert matching("sum", TOOLS) is None
    assert matching("2. **Bleurt** (0-1) score", TOOLS) == "bleurt"
    assert matching("Tone (voice)", ["Tone", "Tone (voice)"]) == "Tone (voice)"
    long = "- Coherence: " + "nli and " * 20_000 + "\n" * 20_000 + "1. " * 20_000
    assert set(parse_plan(long, CRITERIA, TOOLS).assistants["coherence"]) <= {"nli"}
