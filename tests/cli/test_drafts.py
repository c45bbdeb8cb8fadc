"""`textassay tree` and `plan`: a model writes, people edit the file, and `score` judges by it."""

import pytest

from tests.cli.harness import served, textassay
from textassay.methods.library import plans, tasks, trees

TOOLS = ("chrf", "length")


def write(command, server, out, *flags):
    """Run `tree`, or `plan` with its tools."""
    tools = ("--tools", ",".join(TOOLS)) if command == "plan" else ()
    asked = ("--model", "direct/mock", "--api-base", server.url, "--set", "attempts=1")
    return textassay(command, *tools, "--out", out, *asked, *flags)


def test_a_tree_is_grown_written_and_shown(server, tmp_path):
    out = tmp_path / "tree.toml"
    growth = ("--set", "depth=3", "--set", "children=2", "--aspects", "fluency")
    printed = write("tree", server, out, "--task", "translation", *growth)
    below = ("  Respect 1", "    Respect 2", "  Respect 2", "    Respect 1")
    assert printed.out.splitlines() == ["fluency", *below]
    ids = ["fluency", "fluency/respect-1", "fluency/respect-1/respect-2"]
    assert [aspect.id for aspect in trees.load(str(out))][:3] == ids
    assert 'source = "hd-eval for translation, by direct/mock"' in out.read_text()
    assert server.counters.requests == 3


def test_chains_of_relevant_aspects_are_written_as_a_tree(server, tmp_path):
    out = tmp_path / "chains.json"
    flags = ("--method", "coascore", "--task", "dialogue", "--set", "n_aspects=5")
    write("tree", server, out, *flags).ok()
    grown = trees.load(str(out))
    assert [len(grown.children(root.id)) for root in grown.roots] == [5] * 6
    assert grown["engagingness/respect-1"].scale == (1, 5)  # a scale of their own


@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
def test_a_plan_is_written_saved_and_shown(name, server, tmp_path):
    out = tmp_path / name
    printed = write("plan", server, out, "--task", "translation").ok()
    task = tasks.load("translation")
    read = plans.load(str(out), task, TOOLS)
    assert set(read.assistants) == {aspect.name for aspect in task.aspects}
    assert all(len(read.assistants[name]) == 1 for name in ("adequacy", "fluency", "accuracy"))
    assert read.steps[0].endswith("form a first impression of the text for its Adequacy.")
    assert read.steps[-1].startswith("Decide on the rating by the definition")
    assert '"adequacy" = ["' in printed.out
    assert "written for translation by direct/mock" in out.read_text()
    assert server.counters.requests == 1


@pytest.mark.parametrize(
    ("command", "name", "flags", "message"),
    [
        ("tree", "mine.toml", (), "exists; trees are edited by hand and never overwritten"),
        ("tree", "tree.yaml", (), "saved as .toml or .json"),
        ("tree", "none/tree.toml", (), "there is no folder"),
        ("tree", "tree.json", ("--method", "g-eval"), "known: hd-eval, coascore"),
        ("plan", "mine.toml", (), "exists; plans are edited by hand and never overwritten"),
        ("plan", "other.toml", ("--tools", "chrff"), "unknown tool 'chrff'"),
    ],
)
def test_nothing_is_asked_where_something_does_not_fit(
    command, name, flags, message, server, tmp_path
):
    (tmp_path / "mine.toml").write_text("mine")
    refused = write(command, server, tmp_path / name, *flags)
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert (tmp_path / "mine.toml").read_text() == "mine"
    assert server.counters.requests == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [("tree", "returned no list"), ("plan", "does not say which assistant evaluators")],
)
def test_nothing_is_written_where_the_answer_is_refused(command, message, tmp_path):
    with served(reply="text") as server:
        # Of several aspects, others may be asked about before the refusal of one ends the run.
        stopped = write(command, server, tmp_path / "out.toml", "--aspects", "fluency")
        assert (stopped.code, message in stopped.err) == (3, True), stopped.err
        assert server.counters.requests == 2
    assert not (tmp_path / "out.toml").exists()
