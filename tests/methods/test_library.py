"""What people edit: tasks, Fusion-Eval's plans, and trees of criteria."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from textassay.methods.library import plans, tasks, trees
from textassay.prompts import PLANS, TASKS, TREES
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect, AspectTree, Plan

STORY = """
name = "story"
intro = "You will be given a story."
output_name = "Story"
[[aspects]]
name = "suspense"
definition = "whether one wants to know how it goes on."
scale = [0, 10]
steps = ["Read it.", "Rate it."]
[[aspects]]
name = "brevity"
definition = "whether it is short."
higher_is_better = false
"""


def story(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", TASKS)
def test_every_built_in_task_loads_and_asks_a_question_for_each_aspect(name):
    task = tasks.load(name)
    assert task.name == name
    assert all(aspect.question and aspect.question.endswith("?") for aspect in task.aspects)


BENCHMARKS = {
    "summarization": dict.fromkeys(("coherence", "consistency", "fluency", "relevance"), (1, 5)),
    "dialogue": {
        "naturalness": (1, 3), "coherence": (1, 3), "engagingness": (1, 3), "groundedness": (0, 1),
        "understandability": (0, 1), "overall": (1, 5),
    },
    "data-to-text": dict.fromkeys(("informativeness", "naturalness", "quality"), (1, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", BENCHMARKS)
def test_built_in_tasks_judge_what_the_benchmarks_judge_on_their_scales(name):
    scales = {aspect.name: aspect.scale for aspect in tasks.load(name).aspects}
    assert list(scales.items()) == list(BENCHMARKS[name].items())


def test_aspects_come_in_the_order_asked_for_and_leave_the_digest_alone():
    whole = tasks.load("summarization")
    part = tasks.load("summarization", ["Relevance", "coherence"])
    assert [aspect.name for aspect in part.aspects] == ["relevance", "coherence"]
    assert part.digest == whole.digest


def test_a_file_of_the_users_own(tmp_path):
    task = tasks.load(story(tmp_path, STORY))
    assert [(a.name, a.scale, a.higher_is_better) for a in task.aspects] == [
        ("suspense", (0, 10), True),
        ("brevity", (1, 5), False),
    ]
    assert task.steps == {"suspense": ("Read it.", "Rate it.")}
    none = tasks.load(story(tmp_path, STORY.replace('["Read it.", "Rate it."]', "[]")))
    assert none.steps == {"suspense": ()}
    assert task.digest != tasks.load(story(tmp_path, STORY.replace("short", "long"))).digest


def test_an_unknown_aspect_names_those_there_are():
    unknown = r"unknown aspect of task 'summarization': 'humour'; known: coherence, "
    with pytest.raises(UnknownName, match=unknown):
        tasks.load("summarization", ["humour"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[0, 10]", "[10, 0]", "aspect 'suspense': .*must be ascending, not from 10 to 0"),
        ("[0, 10]", '["a", "b"]', "aspect 'suspense': scale"),
        ("higher_is_better", "higher",
         "aspect 'brevity': unknown key 'higher'; known: name, definition"),
        ("output_name", "output", "unknown key 'output'; known: name, intro"),
        ('definition = "whether it is short."', "",
         "aspect 'brevity': definition: Field required"),
        ('"whether it is short."', '" "', "'brevity' needs a definition"),
        ('"brevity"', '"Suspense"', "two aspects are called 'suspense'"),
        ('["Read it.", "Rate it."]', '"Read it."', "steps.*: Input should be a valid list"),
        (STORY, 'intro = "x"', "at least one"),
        (STORY, "name = ", "cannot be read"),
        ('intro = "You will be given a story."', "", "intro: Field required"),
    ],
)  # fmt: skip
def test_an_error_in_a_file_names_file_and_key(tmp_path, old, new, says):
    path = story(tmp_path, STORY.replace(old, new))
    with pytest.raises(ConfigurationError, match=says) as caught:
        tasks.load(path)
    assert re.search(r"mine\.toml", str(caught.value))


SUMMARIES, DIALOGUE = tasks.load("summarization"), tasks.load("dialogue")
PLAN = 'steps = ["Read.", "Rate."]\n[assistants]\ncoherence = ["NLI"]\n'


@pytest.mark.parametrize(
    ("name", "task", "serving", "words"),
    [
        ("summeval", SUMMARIES,
         {"coherence": ("sum_bleurt",), "consistency": ("nli", "bleurt"),
          "relevance": ("bleurt", "sum_bleurt")},
         "**Use NLI & BLEURT for Consistency**: Check both scores."),
        ("topical-chat", DIALOGUE,
         {"naturalness": ("lm_prob",), "groundedness": ("bleurt",),
          "understandability": ("lm_prob",)},
         "6. **Overall Quality (1-5, Any Floating Value)**:"),
    ],
)  # fmt: skip
def test_the_papers_plans(name, task, serving, words):
    plan = plans.load(name, task, ["nli", "bleurt", "sum_bleurt", "lm_prob"])
    assert plan.assistants == {aspect.name: () for aspect in task.aspects} | serving
    assert words in plan.text
    assert plan.steps == ()


@pytest.mark.parametrize("name", PLANS)
def test_a_published_plan_without_its_tools_says_which_is_missing(name):
    unknown = r"unknown assistant evaluator in plan .*tools=.*'bleurt'.* known: nli"
    task = SUMMARIES if name == "summeval" else DIALOGUE
    with pytest.raises(UnknownName, match=unknown):
        plans.load(name, task, ["nli", "lm_prob", "sum_bleurt"])


def test_a_plan_is_cut_to_the_aspects_that_are_judged(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('text = "Rate."\n[assistants]\nFluency = ["nli", "NLI"]\ncoherence = ["nli"]\n')
    plan = plans.load(str(path), tasks.load("summarization", ["fluency", "relevance"]), ["nli"])
    assert plan == Plan(assistants={"fluency": ("nli",), "relevance": ()}, text="Rate.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PLAN.replace("coherence", "charm"), "unknown aspect in plan .*'charm'; known: coherence"),
        (PLAN.replace("NLI", "rouge"), "'rouge'; known: nli"),
        ("[assistants]\ncoherence = []\n", "neither steps nor text"),
        ('steps = ["Rate."]\n', "assistants: Field required"),
        (PLAN.replace("steps", "stepz"), "stepz: Extra inputs"),
        (PLAN.replace('["NLI"]', '"NLI"'), "assistants.coherence: "),
        ("format = 2\n" + PLAN, "format 2; this version reads up to 1"),
        ("steps = [", "cannot be read"),
    ],
)
def test_an_unusable_file_is_refused_with_the_reason(tmp_path, content, message):
    path = tmp_path / "plan.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        plans.load(str(path), SUMMARIES, ["nli"])


def test_a_plan_file_that_holds_a_list_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="contains no table"):
        plans.load(str(path), SUMMARIES, ["nli"])


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


LAYERS = {"dialogue": (4, 15, 12), "summarization": (4, 12, 9), "data-to-text": (2, 6, 13)}


@pytest.fixture
def tree_file(tmp_path):
    def write(*rows, name="tree.toml", head="format = 1\n"):
        path = tmp_path / name
        body = "\n".join(
            "[[aspects]]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in row.items())
            for row in rows
        )
        path.write_text(head + body, encoding="utf-8")
        return str(path)

    return write


def node(name, parent=None, **more):
    above = {"parent": parent} if parent else {}
    return {"name": name, "definition": f"what {name} is.", **above, **more}


@pytest.mark.parametrize("name", TREES)
def test_published_trees_have_the_layers_of_the_papers_tables(name):
    tree = trees.load(name, tasks.load(name))
    assert tuple(len(tree.layer(i)) for i in (1, 2, 3)) == LAYERS[name]
    assert tree.depth == 3
    assert {root.name for root in tree.roots} <= {
        aspect.name for aspect in tasks.load(name).aspects
    }


def test_figure_3_gives_the_parents_of_the_dialogue_tree():
    tree = trees.load("dialogue", tasks.load("dialogue"))
    names = ["Information quantity", "Information quality", "Topic diversity", "Topic relevance"]
    assert [a.name for a in tree.children("engagingness/content-richness")] == names
    twin = tree["engagingness/content-richness/topic-relevance"]
    assert tree["coherence/topic-relevance"].definition != twin.definition


def test_a_root_without_a_definition_takes_the_tasks():
    tree = trees.load("summarization", tasks.load("summarization", ["fluency"]))
    assert tree["coherence"].definition == tasks.load("summarization").aspects[0].definition
    with pytest.raises(ConfigurationError, match="'naturalness': definition: Field required"):
        trees.load("dialogue", tasks.load("summarization"))


def test_a_parent_is_named_by_path_or_by_a_name_that_is_unique(tree_file):
    tree = trees.load(
        tree_file(
            node("Deep", "left hand"), node("Left hand", "ROOT"), node("Root"),
            node("Deeper", "root/left-hand/deep"),
        )
    )  # fmt: skip
    below = ["/left-hand/deep", "/left-hand", "", "/left-hand/deep/deeper"]
    assert [aspect.id for aspect in tree] == [f"root{end}" for end in below]


def test_one_name_may_be_at_two_places_but_then_paths_are_needed(tree_file):
    rows = [node("a"), node("b"), node("same", "a"), node("same", "b")]
    assert len(trees.load(tree_file(*rows, node("leaf", "b/same"))).aspects) == 5
    open_ = "'leaf': 'same' may be 'a/same', 'b/same'; name it in full"
    with pytest.raises(ConfigurationError, match=open_):
        trees.load(tree_file(*rows, node("leaf", "same")))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([node("a", "b"), node("b", "a")], r"form a circle: a, b"),
        ([node("r"), node("a", "c"), node("b", "a"), node("c", "b")], r"form a circle: a, b, c"),
        ([node("a", "a")], r"form a circle: a"),
        ([node("a"), node("b", "nowhere")], r"'b' names the unknown parent 'nowhere'; known: a"),
        ([node("a"), node("b", "a/x")], r"'b' names the unknown parent 'a/x'"),
        ([node("a"), node("b", "a"), node("B", "a")], r"two siblings are called 'B' \(id 'a/b'\)"),
        ([node("a"), node("A")], r"two siblings are called 'A'"),
        ([{"name": "a"}], r"aspect 'a': definition: Field required"),
        ([{"definition": "d"}], r"aspect 1 needs a name"),
        ([node(" ")], r"aspect 1 needs a name"),
        ([node("a", colour="red")], r"aspect 'a': unknown key 'colour'; known: name, parent"),
        ([node("a", scale=[5, 1])], r": aspect 'a': the scale must be ascending, not from 5 to 1"),
        ([node("a"), {**node("b"), "parent": 3}], r"aspect 'b': parent must be a name, not 3"),
        ([], r"at least one \[\[aspects\]\]"),
    ],
)
def test_an_unusable_tree_is_refused_with_file_and_aspect(tree_file, rows, problem):
    path = tree_file(*rows)
    with pytest.raises(ConfigurationError, match=problem) as error:
        trees.load(path)
    assert path in str(error.value)


def plan_of(path):
    return plans.load(path, SUMMARIES, ["nli"])


@pytest.mark.parametrize(
    ("load", "name", "problem"),
    [
        (tasks.load, "poetry", r"unknown task 'poetry'; known: summarization, dialogue, .*\.toml"),
        (trees.load, "poetry", "unknown tree 'poetry'; known: dialogue, summarization, data-to-"),
        (plan_of, "sumeval", r"unknown plan 'sumeval'; .*known: auto, none, summeval, topical-c"),
        *((load, "none.toml", "does not exist") for load in (tasks.load, trees.load, plan_of)),
    ],
)
def test_a_file_that_is_nowhere_names_those_there_are(load, name, problem):
    with pytest.raises(ConfigurationError, match=problem) as refused:
        load(name)
    assert isinstance(refused.value, UnknownName) == problem.startswith("unknown")


def test_files_that_are_newer_or_not_trees(tree_file, tmp_path):
    for head, problem in (
        ("format = 2\n", "format 2; this version reads up to 1"),
        ('colour = "red"\n', "unknown key 'colour'"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            trees.load(tree_file(node("a"), head=head))
    bad = {"bad.toml": b"= 3", "bad.json": b"{", "utf.toml": b"a = '\xff'", "list.json": b"[]"}
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigurationError, match=name):
            trees.load(str(tmp_path / name))


def test_trees_and_plans_are_saved_as_toml_or_json_only(tmp_path):
    half = Aspect(name="a", definition="d", question="half of a pair: \ud83d")
    tree = AspectTree(aspects=(half,))
    for module, content in ((trees, tree), (plans, Plan(assistants={}))):
        with pytest.raises(ConfigurationError, match=r"end in \.toml or \.json"):
            module.save(content, tmp_path / "tree.yaml")
    with pytest.raises(ConfigurationError, match=r"save it as \.json"):
        trees.save(tree, tmp_path / "tree.toml")
    trees.save(tree, tmp_path / "tree.json", source="a test")
    assert trees.load(str(tmp_path / "tree.json")) == tree


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda t: t.strip()
)
SCALES = st.tuples(st.floats(-10, 0), st.floats(1, 10))


@st.composite
def some_trees(draw):
    found = []
    for _ in range(draw(st.integers(1, 8))):
        parent = draw(st.sampled_from([None, *(aspect.id for aspect in found)]))
        question, better = draw(st.none() | WORDS), draw(st.booleans())
        aspect = Aspect(
            name=draw(WORDS), definition=draw(WORDS), scale=draw(SCALES), higher_is_better=better,
            question=question, parent=parent,
        )  # fmt: skip
        if aspect.id not in {other.id for other in found}:
            found.append(aspect)
    return AspectTree(aspects=tuple(found))


@pytest.mark.parametrize("kind", ["toml", "json"])
@given(tree=some_trees())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
def test_what_is_saved_is_loaded_as_it_was(tmp_path, kind, tree):
    path = tmp_path / f"tree.{kind}"
    trees.save(tree, path, source="made by a test")
    assert trees.load(str(path)) == tree
