"""`textassay annotate`: what it says of the addresses that it is given."""

import json
import subprocess
import sys
from contextlib import contextmanager

import aiohttp
import pytest

from tests.annotate.test_server import items
from tests.cli.harness import textassay
from textassay.cli.commands.annotate import exposure


@pytest.mark.parametrize(
    ("host", "public", "warning"),
    [
        ("127.0.0.1", None, None),
        ("127.0.0.1", "https://rate.example", None),
        ("127.0.0.1", "http://rate.example", "not encrypted"),
        ("0.0.0.0", None, "not encrypted"),
        ("0.0.0.0", "http://rate.example", "not encrypted"),
        ("0.0.0.0", "https://rate.example", "also listens at 0.0.0.0"),
    ],
)
def test_what_others_can_read_is_said(host, public, warning):
    said = exposure(host, public)
    assert said is None if warning is None else warning in said


def test_a_public_address_with_a_path_is_refused(tmp_path):
    """Before anything is served."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"id": "a", "output": "b"}\n', encoding="utf-8")
    done = textassay(
        "annotate", data, "--task", "summarization", "--out", tmp_path / "ratings.jsonl",
        "--public-url", "https://rate.example/study",
    )  # fmt: skip
    assert done.code == 2
    assert "--public-url takes https://HOST" in done.err


def test_guidelines_that_are_not_there_are_refused(tmp_path):
    """Before anything is served."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"id": "a", "output": "b"}\n', encoding="utf-8")
    done = textassay(
        "annotate", data, "--task", "summarization", "--out", tmp_path / "ratings.jsonl",
        "--guidelines", tmp_path / "none.md",
    )  # fmt: skip
    assert done.code == 2
    assert "none.md cannot be read" in done.err


@contextmanager
def serving(data, task, *flags):
    """What `annotate` says first: the link of a rater."""
    command = [sys.executable, "-m", "textassay", "annotate", data, "--task", task, "--port", "0"]
    command += ["--out", data.with_suffix(".ratings.jsonl"), *flags]
    with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield next(server.stderr).split()[-1]
        finally:
            server.terminate()


def test_data_with_labels_of_the_task_are_served(tmp_path):
    """The task names them, as for `score`."""
    data, task = tmp_path / "data.jsonl", tmp_path / "task.toml"
    data.write_text(json.dumps({"output": "Where is it?", "human": {"intent": "question"}}))
    task.write_text(
        'name = "t"\nintro = "A message."\noutput_name = "Message"\n[[aspects]]\nname = "intent"\n'
        'definition = "what it is"\n[aspects.labels]\norder = "an order"\nquestion = "a question"\n'
        'complaint = "a complaint"\n'
    )
    with serving(data, task) as link:
        assert "/rate/" in link


@pytest.mark.asyncio
async def test_turns_are_rated_by_themselves(tmp_path):
    """With the ids that `score --unit turn` gives them, under the guidelines of a file."""
    roles = ("user", "assistant")
    chat = [{"role": role, "content": f"{role} {at}"} for at in range(2) for role in roles]
    data = tmp_path / "chats.jsonl"
    data.write_text(json.dumps({"id": "c", "messages": chat}))
    guide = tmp_path / "guide.md"
    guide.write_text("Rate <each> turn.")
    flags = ("--unit", "turn", "--aspects", "relevance", "--guidelines", guide)
    with serving(data, "general", *flags) as link:
        base, _, token = link.partition("/rate/")
        async with aiohttp.ClientSession() as client:
            offered = await items(client, base, token)
            async with client.get(f"{base}/api/{token}/study") as response:
                assert (await response.json())["guidelines"]["text"] == "Rate <each> turn."
    assert {one["outputs"][0]["text"] for one in offered} == {"assistant 0", "assistant 1"}
