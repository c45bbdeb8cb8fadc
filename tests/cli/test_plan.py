"""`textassay plan`: a model writes the plan, people edit the file, and `score` judges by it."""

import pytest

from tests.cli.harness import served, textassay
from textassay.methods.library import plans, tasks

TOOLS = ("chrf", "length")


def plan(server, out, *flags):
    asked = ("--model", "direct/mock", "--api-base", server.url, "--set", "attempts=1")
    return textassay("plan", "--tools", ",".join(TOOLS), "--out", out, *asked, *flags)


@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
def test_a_plan_is_written_saved_and_shown(name, server, tmp_path):
    out = tmp_path / name
    printed = plan(server, out, "--task", "translation")
    assert printed.code == 0
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
    ("name", "flags", "message"),
    [
        ("plan.toml", (), "exists; plans are edited by hand and never overwritten"),
        ("other.toml", ("--tools", "chrff"), "unknown tool 'chrff'"),
    ],
)
def test_nothing_is_asked_where_something_does_not_fit(name, flags, message, server, tmp_path):
    (tmp_path / "plan.toml").write_text("mine")
    refused = plan(server, tmp_path / name, *flags)
    assert refused.code == 2
    assert message in refused.err
    assert (tmp_path / "plan.toml").read_text() == "mine"
    assert server.counters.requests == 0


def test_nothing_is_written_where_the_plan_is_refused(tmp_path):
    out = tmp_path / "plan.toml"
    with served(reply="text") as server:
        stopped = plan(server, out)
        assert stopped.code == 3
        assert "does not say which assistant evaluators serve" in stopped.err
        assert not out.exists()
        assert server.counters.requests == 2
