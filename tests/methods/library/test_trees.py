"""Trees as files: published ones, what people write and mistype, and that what is saved is what is
loaded."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from textassay.methods.library import tasks, trees
from textassay.prompts import TREES
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect, AspectTree

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
    return {
        "name": name,
        "definition": f"what {name} is.",
        **({"parent": parent} if parent else {}),
        **more,
    }


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
    assert [a.name for a in tree.children("engagingness/content-richness")] == [
        "Information quantity",
        "Information quality",
        "Topic diversity",
        "Topic relevance",
    ]
    assert (
        tree["coherence/topic-relevance"].definition
        != tree["engagingness/content-richness/topic-relevance"].definition
    )


def test_a_root_without_a_definition_takes_the_tasks():
    tree = trees.load("summarization", tasks.load("summarization", ["fluency"]))
    assert tree["coherence"].definition == tasks.load("summarization").aspects[0].definition
    with pytest.raises(
        ConfigurationError, match=r"aspect 'naturalness': definition: Field required"
    ):
        trees.load("dialogue", tasks.load("summarization"))


def test_a_parent_is_named_by_path_or_by_a_name_that_is_unique(tree_file):
    rows = [
        node("Deep", "left hand"),
        node("Left hand", "ROOT"),
        node("Root"),
        node("Deeper", "root/left-hand/deep"),
    ]
    path = tree_file(*rows)
    tree = trees.load(path)
    assert [aspect.id for aspect in tree] == [
        "root/left-hand/deep",
        "root/left-hand",
        "root",
        "root/left-hand/deep/deeper",
    ]


def test_one_name_may_stand_at_two_places_but_then_paths_are_needed(tree_file):
    rows = [node("a"), node("b"), node("same", "a"), node("same", "b")]
    assert len(trees.load(tree_file(*rows, node("leaf", "b/same"))).aspects) == 5
    with pytest.raises(
        ConfigurationError, match=r"'leaf': 'same' may be 'a/same', 'b/same'; name it in full"
    ):
        trees.load(tree_file(*rows, node("leaf", "same")))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([node("a", "b"), node("b", "a")], r"parents of each other: a -> b -> a"),
        (
            [node("r"), node("a", "c"), node("b", "a"), node("c", "b")],
            r"parents of each other: a -> c -> b -> a",
        ),
        ([node("a", "a")], r"parents of each other: a -> a"),
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
def test_what_is_no_tree_is_refused_with_file_and_aspect(tree_file, rows, problem):
    path = tree_file(*rows)
    with pytest.raises(ConfigurationError, match=problem) as error:
        trees.load(path)
    assert path in str(error.value)


def test_files_that_are_missing_newer_or_not_trees(tree_file, tmp_path):
    with pytest.raises(
        UnknownName, match="unknown tree 'poetry'; known: dialogue, summarization, data-to-text"
    ):
        trees.load("poetry")
    with pytest.raises(ConfigurationError, match="does not exist"):
        trees.load(str(tmp_path / "none.toml"))
    with pytest.raises(ConfigurationError, match="format 2; this version reads up to 1"):
        trees.load(tree_file(node("a"), head="format = 2\n"))
    with pytest.raises(ConfigurationError, match="unknown key 'colour'"):
        trees.load(tree_file(node("a"), head='colour = "red"\n'))
    for name, content in (
        ("bad.toml", b"= 3"),
        ("bad.json", b"{"),
        ("utf.toml", b"a = '\xff'"),
        ("list.json", b"[]"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigurationError, match=name):
            trees.load(str(tmp_path / name))


def test_a_tree_is_saved_as_toml_or_json_only(tmp_path):
    tree = AspectTree(
        aspects=(Aspect(name="a", definition="d", question="half of a pair: \ud83d"),)
    )
    with pytest.raises(ConfigurationError, match=r"saved as \.toml or \.json"):
        trees.save(tree, tmp_path / "tree.yaml")
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
