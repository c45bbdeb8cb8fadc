"""`textassay tree`: a model takes aspects apart, people edit the file, and `score` judges by it."""

import pytest

from textassay.cli.exits import Stopped
from textassay.cli.tree import TreeCommand, execute
from textassay.methods.library import trees
from textassay.runtime.errors import ConfigurationError, MalformedResponse, UnknownName
from textassay.runtime.settings import Settings

pytestmark = pytest.mark.asyncio


def order(server, out, **fields):
    settings = Settings(api_base=server.url, attempts=1)
    return TreeCommand(
        **{
            "method": "hd-eval",
            "out": out,
            "models": {"": "direct/mock"},
            "settings": settings,
            **fields,
        }
    )


async def test_a_tree_is_grown_written_and_shown(mock_server, tmp_path, capsys):
    server, out = await mock_server(), tmp_path / "tree.toml"
    await execute(
        order(
            server,
            out,
            task="translation",
            aspects=("fluency",),
            options={"depth": 3, "children": 2},
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "fluency",
        *["  Respect 1", "    Respect 2"],
        "  Respect 2",
        "    Respect 1",
    ]
    tree = trees.load(str(out))
    assert [aspect.id for aspect in tree][:3] == [
        "fluency",
        "fluency/respect-1",
        "fluency/respect-1/respect-2",
    ]
    assert 'source = "hd-eval for translation, by direct/mock"' in out.read_text()
    assert server.counters.requests == 3


async def test_chains_of_relevant_aspects_are_written_as_a_tree(mock_server, tmp_path):
    server, out = await mock_server(), tmp_path / "chains.json"
    await execute(order(server, out, method="coascore", task="dialogue", options={"n_aspects": 5}))
    tree = trees.load(str(out))
    assert [len(tree.children(root.id)) for root in tree.roots] == [5] * 6
    assert tree["engagingness/respect-1"].scale == (1, 5)  # a scale of their own, not the target's


async def test_nothing_is_asked_where_the_file_cannot_be_written(mock_server, tmp_path):
    server, out = await mock_server(), tmp_path / "tree.toml"
    out.write_text("mine")
    with pytest.raises(
        ConfigurationError, match="exists; trees are edited by hand and never overwritten"
    ):
        await execute(order(server, out))
    with pytest.raises(ConfigurationError, match=r"saved as \.toml or \.json"):
        await execute(order(server, tmp_path / "tree.yaml"))
    with pytest.raises(ConfigurationError, match="there is no folder"):
        await execute(order(server, tmp_path / "none" / "tree.toml"))
    with pytest.raises(UnknownName, match="known: hd-eval, coascore"):
        await execute(order(server, tmp_path / "tree.json", method="g-eval"))
    assert out.read_text() == "mine"
    assert server.counters.requests == 0


async def test_nothing_is_written_where_the_model_gives_no_list(mock_server, tmp_path):
    server, out = await mock_server(reply="text"), tmp_path / "tree.toml"
    with pytest.raises(Stopped) as stopped:
        await execute(order(server, out))
    assert isinstance(stopped.value.__cause__, MalformedResponse)
    assert "returned no list" in str(stopped.value.__cause__)
    assert not out.exists()
