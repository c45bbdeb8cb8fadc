"""`textassay plan`: a model writes the plan, people edit the file, and `score` judges by it."""

import pytest

from textassay.cli.exits import Stopped
from textassay.cli.plan import PlanCommand, execute
from textassay.methods.library import plans, tasks
from textassay.runtime.errors import ConfigurationError, MalformedResponse, UnknownName
from textassay.runtime.settings import Settings

pytestmark = pytest.mark.asyncio
TOOLS = ("chrf", "length")


def order(server, out, **fields):
    settings = Settings(api_base=server.url, attempts=1)
    return PlanCommand(
        **{
            "out": out,
            "models": {"": "direct/mock"},
            "tools": TOOLS,
            "settings": settings,
            **fields,
        }
    )


@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
async def test_a_plan_is_written_saved_and_shown(name, mock_server, tmp_path, capsys):
    server, out = await mock_server(), tmp_path / name
    await execute(order(server, out, task="translation"))
    task = tasks.load("translation")
    plan = plans.load(str(out), task, TOOLS)
    assert set(plan.assistants) == {aspect.name for aspect in task.aspects}
    assert all(len(plan.assistants[name]) == 1 for name in ("adequacy", "fluency", "accuracy"))
    assert plan.steps[0].endswith("form a first impression of the text for its Adequacy.")
    assert plan.steps[-1].startswith("Decide on the rating by the definition")
    assert '"adequacy" = ["' in capsys.readouterr().out
    assert "written for translation by direct/mock" in out.read_text()
    assert server.counters.requests == 1


async def test_nothing_is_asked_where_something_does_not_fit(mock_server, tmp_path):
    server, out = await mock_server(), tmp_path / "plan.toml"
    out.write_text("mine")
    with pytest.raises(
        ConfigurationError, match="exists; plans are edited by hand and never overwritten"
    ):
        await execute(order(server, out))
    with pytest.raises(UnknownName, match="unknown tool 'chrff'"):
        await execute(order(server, tmp_path / "other.toml", tools=("chrff",)))
    assert out.read_text() == "mine"
    assert server.counters.requests == 0


async def test_nothing_is_written_where_the_plan_is_refused(mock_server, tmp_path):
    server, out = await mock_server(reply="text"), tmp_path / "plan.toml"
    with pytest.raises(Stopped) as stopped:
        await execute(order(server, out))
    assert isinstance(stopped.value.__cause__, MalformedResponse)
    assert "does not say which assistant evaluators serve" in str(stopped.value.__cause__)
    assert not out.exists()
    assert server.counters.requests == 2
