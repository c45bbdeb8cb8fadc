"""Plan files: the paper's two, files of the user's own, and what is wrong with one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.methods.library import plans, tasks
from textassay.prompts import PLANS
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Plan

SUMMARIES, DIALOGUE = tasks.load("summarization"), tasks.load("dialogue")
GOOD = 'steps = ["Read.", "Rate."]\n[assistants]\ncoherence = ["NLI"]\n'


def test_the_papers_plan_for_summeval():
    plan = plans.load("summeval", SUMMARIES, ["nli", "bleurt", "sum_bleurt"])
    assert plan.assistants == {
        "coherence": ("sum_bleurt",),
        "consistency": ("nli", "bleurt"),
        "fluency": (),
        "relevance": ("bleurt", "sum_bleurt"),
    }
    assert plan.text.startswith(
        "Evaluate a provided summary using criteria: Coherence, Consistency, Relevance, and"
    )
    assert plan.text.endswith("- Highlight strengths and areas needing improvement.")
    assert "**Use NLI & BLEURT for Consistency**: Check both scores." in plan.text
    assert plan.steps == ()


def test_the_papers_plan_for_topical_chat():
    plan = plans.load("topical-chat", DIALOGUE, ["lm_prob", "bleurt", "nli"])
    named = {aspect: tools for aspect, tools in plan.assistants.items() if tools}
    assert named == {
        "naturalness": ("lm_prob",),
        "groundedness": ("bleurt",),
        "understandability": ("lm_prob",),
    }
    assert "6. **Overall Quality (1-5, Any Floating Value)**:" in plan.text
    assert set(plan.assistants) == {aspect.name for aspect in DIALOGUE.aspects}


@pytest.mark.parametrize("name", PLANS)
def test_a_published_plan_without_its_tools_says_which_is_missing(name):
    with pytest.raises(
        UnknownName, match=r"unknown assistant evaluator in plan .*tools=.*'bleurt'.* known: nli"
    ):
        plans.load(
            name, SUMMARIES if name == "summeval" else DIALOGUE, ["nli", "lm_prob", "sum_bleurt"]
        )


def test_a_plan_is_cut_to_the_aspects_that_are_judged(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(
        'text = "Rate."\n[assistants]\nFluency = ["nli", "NLI"]\ncoherence = ["nli"]\n',
        encoding="utf-8",
    )
    plan = plans.load(str(path), tasks.load("summarization", ["fluency", "relevance"]), ["nli"])
    assert plan == Plan(assistants={"fluency": ("nli",), "relevance": ()}, text="Rate.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            GOOD.replace("coherence", "charm"),
            "unknown aspect in plan .*: .*'charm'|'charm'; known: coherence",
        ),
        (GOOD.replace("NLI", "rouge"), "'rouge'; known: nli"),
        ("[assistants]\ncoherence = []\n", "neither steps nor text"),
        ('steps = ["Rate."]\n', "assistants: Field required"),
        (GOOD.replace("steps", "stepz"), "stepz: Extra inputs"),
        (GOOD.replace('["NLI"]', '"NLI"'), "assistants.coherence: "),
        ("format = 2\n" + GOOD, "format 2; this version reads up to 1"),
        ("steps = [", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, message):
    path = tmp_path / "plan.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        plans.load(str(path), SUMMARIES, ["nli"])


def test_a_plan_that_is_nowhere_names_those_there_are(tmp_path):
    with pytest.raises(
        UnknownName, match=r"unknown plan 'sumeval'; .*known: auto, none, summeval, topical-chat"
    ):
        plans.load("sumeval", SUMMARIES, ["nli"])
    with pytest.raises(ConfigurationError, match="does not exist"):
        plans.load(str(tmp_path / "none.toml"), SUMMARIES, ["nli"])
    broken = tmp_path / "plan.json"
    broken.write_text("[1]", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="contains no table"):
        plans.load(str(broken), SUMMARIES, ["nli"])


@given(
    steps=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=4),
    text=st.text(st.characters(codec="utf-8")),
    chosen=st.lists(st.sampled_from(["nli", "ter"]), unique=True),
)
def test_what_is_saved_is_read_again(tmp_path_factory, steps, text, chosen):
    assistants = {aspect.name: () for aspect in SUMMARIES.aspects} | {"fluency": tuple(chosen)}
    plan = Plan(
        assistants=assistants, steps=tuple(steps), text="" if steps else f"Rate. {text}".strip()
    )
    folder = tmp_path_factory.mktemp("plans")
    for name in ("plan.toml", "plan.json"):
        plans.save(plan, folder / name, source="a test")
        assert plans.load(str(folder / name), SUMMARIES, ["nli", "ter"]) == plan
    assert json.loads((folder / "plan.json").read_bytes())["format"] == 1


def test_a_plan_is_saved_as_toml_or_json_only(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\.toml or \.json"):
        plans.save(Plan(assistants={}), tmp_path / "plan.txt")
