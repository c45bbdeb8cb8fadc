"""`textassay tree`: a model takes aspects apart, people edit the file, and `score` judges by it."""

import pytest

from tests.cli.harness import served, textassay
from textassay.methods.library import trees


def tree(server, out, *flags):
    asked = ("--model", "direct/mock", "--api-base", server.url, "--set", "attempts=1")
    return textassay("tree", "--out", out, *asked, *flags)


def test_a_tree_is_grown_written_and_shown(server, tmp_path):
    out = tmp_path / "tree.toml"
    growth = ("--set", "depth=3", "--set", "children=2")
    printed = tree(server, out, "--task", "translation", "--aspects", "fluency", *growth)
    assert printed.out.splitlines() == [
        "fluency",
        *["  Respect 1", "    Respect 2"],
        "  Respect 2",
        "    Respect 1",
    ]
    grown = trees.load(str(out))
    assert [aspect.id for aspect in grown][:3] == [
        "fluency",
        "fluency/respect-1",
        "fluency/respect-1/respect-2",
    ]
    assert 'source = "hd-eval for translation, by direct/mock"' in out.read_text()
    assert server.counters.requests == 3


def test_chains_of_relevant_aspects_are_written_as_a_tree(server, tmp_path):
    out = tmp_path / "chains.json"
    flags = ("--method", "coascore", "--task", "dialogue", "--set", "n_aspects=5")
    assert tree(server, out, *flags).code == 0
    grown = trees.load(str(out))
    assert [len(grown.children(root.id)) for root in grown.roots] == [5] * 6
    assert grown["engagingness/respect-1"].scale == (1, 5)  # a scale of their own


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("tree.toml", (), "exists; trees are edited by hand and never overwritten"),
        ("tree.yaml", (), "saved as .toml or .json"),
        ("none/tree.toml", (), "there is no folder"),
        ("tree.json", ("--method", "g-eval"), "known: hd-eval, coascore"),
    ],
)
def test_nothing_is_asked_where_something_does_not_fit(name, flags, message, server, tmp_path):
    (tmp_path / "tree.toml").write_text("mine")
    refused = tree(server, tmp_path / name, *flags)
    assert refused.code == 2
    assert message in refused.err
    assert (tmp_path / "tree.toml").read_text() == "mine"
    assert server.counters.requests == 0


def test_nothing_is_written_where_the_model_gives_no_list(tmp_path):
    out = tmp_path / "tree.toml"
    with served(reply="text") as server:
        stopped = tree(server, out)
        assert stopped.code == 3
        assert "returned no list" in stopped.err
        assert not out.exists()
