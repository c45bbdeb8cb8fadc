"""Where models come from, and that what a tool lacks is found out before anything is paid for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import tiny
from tests.waiting import HANGS_AFTER
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.messages import Example
from textassay.tools import NLI, BartScore, BertScore, Bleurt, Embedding, LMProb, Rouge, UniEval
from textassay.tools.engines import ModelFiles, locate, longest_input
from textassay.tools.tool import check_installed, prepare_tools

EXAMPLE = Example(output="a cat", source="a dog", references=("a dog",))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("empty", "is not a model: expected a folder with config.json"),
        ("file", "is not a model"),
        ("nothing/at/all", "neither a folder nor a Hub id"),
        ("broken", "is not JSON"),
        ("list", "is not a JSON object"),
    ],
)
def test_folders_that_are_not_models_are_named(tmp_path, made, message):
    (tmp_path / "file").write_text("x")
    for name, text in (("empty", None), ("broken", "{"), ("list", "[]")):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "config.json").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        locate(str(tmp_path / made))


def offline(script, folder, **environment):
    """Run a script whose Hub is an empty or prepared folder."""
    tiny.need("huggingface_hub")
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        cwd=Path(__file__).resolve().parents[2],
    )


def test_a_cached_snapshot_is_used_offline_and_named_after_its_commit(tmp_path):
    """As the Hub's client lays it out."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--organisation--model"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "v1").write_text(commit)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_text("{}")
    ran = offline(
        "from textassay.tools.engines import locate; print(locate('organisation/model@v1').label)",
        tmp_path,
    )
    assert ran.stdout.strip() == "organisation/model@0123456789ab", ran.stderr


DAMAGED, ANY = b"garbage", r"cannot read|contains no|has no fast form"


@pytest.mark.parametrize(
    ("make", "source", "engine", "file", "content", "message"),
    [
        *(
            (make, source, engine, file, None, ANY)
            for make, source, engine in (
                (NLI, "nli", "transformers"),
                (Bleurt, "nli", "transformers"),
                (UniEval, "t5", "auto"),
            )
            for file in ("model.safetensors", "token")
        ),
        (NLI, "nli-onnx", "onnx", "model.onnx", None, "contains no model.onnx"),
        (NLI, "nli-onnx", "onnx", "tokenizer.json", None, "contains no tokenizer.json"),
        (NLI, "nli", "transformers", "model.safetensors", DAMAGED, "cannot read"),
        (NLI, "nli", "onnx", "model.onnx", DAMAGED, "cannot read"),
        (NLI, "nli", "onnx", "tokenizer.json", DAMAGED, "cannot read"),
    ],
)
async def test_incomplete_and_damaged_folders_are_refused(
    models, tmp_path, make, source, engine, file, content, message
):
    """An error that stops the run and names the folder; never a crash of some library."""
    for path in (models / source).iterdir():
        if not path.name.startswith(file) and not (engine != "onnx" and path.suffix == ".onnx"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        elif content:
            (tmp_path / path.name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        await make(model=str(tmp_path), engine=engine).score(EXAMPLE)


@pytest.mark.parametrize(
    ("engine", "device"), [("transformers", "cuda:7"), ("transformers", "abacus"), ("onnx", "mps")]
)
async def test_devices_that_cannot_be_used_are_refused(models, engine, device):
    """No silent move to the CPU."""
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await NLI(model=str(models / "nli"), engine=engine, device=device).score(EXAMPLE)


@pytest.mark.parametrize(
    ("config", "tokenizer", "expected"),
    [
        ({"max_position_embeddings": 512}, {}, 512),
        ({"max_position_embeddings": 512}, {"model_max_length": 128}, 128),
        ({"max_position_embeddings": 512}, {"model_max_length": 1e30}, 512),
        ({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}, {}, 512),
        ({}, {"model_max_length": 1000000000000000019884624838656}, None),
    ],
)
def test_the_longest_input_is_read_from_the_configuration(config, tokenizer, expected):
    """RoBERTa counts positions from after the padding token."""
    assert longest_input(ModelFiles(Path(), "x", config, tokenizer)) == expected


UNREACHABLE = """
import asyncio, sys
from textassay.tools import NLI, ToolScorer
from textassay.runtime.messages import Example

async def main():
    scorer = ToolScorer([NLI(), NLI(name="other")])
    tasks = [asyncio.create_task(scorer.score(Example(output="a", source="b"))) for _ in range(40)]
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(asyncio.wait_for(task, 190))
    except* Exception as several:
        print(type(several.exceptions[0]).__name__, several.exceptions[0])
    await asyncio.gather(*tasks, return_exceptions=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "environment",
    [{}, {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}],  # nothing listens there
    ids=["offline", "unreachable"],
)
def test_a_model_that_cannot_be_fetched_is_one_clear_message(tmp_path, environment):
    """Eighty scores wait for it: one error of ours, and nothing of asyncio's on the terminal."""
    tiny.need("torch", "transformers")
    done = offline(UNREACHABLE, tmp_path, **environment)
    assert "ConfigurationError the model 'cross-encoder/nli-deberta-v3-base'" in done.stdout
    assert "hf download cross-encoder/nli-deberta-v3-base --revision 6c749ce3" in done.stdout
    assert "or give a folder" in done.stdout
    assert "never retrieved" not in done.stderr
    assert len(done.stderr.splitlines()) < 3


async def test_tools_are_prepared_before_they_are_used(models, tmp_path):
    """With `load=False` a folder is looked at and nothing is loaded."""
    # a folder of its own: a tool of another test that still holds the model would have loaded it
    tool = NLI(model=str(shutil.copytree(models / "nli", tmp_path / "nli")))
    await prepare_tools([Rouge(), tool], load=False)
    assert "engine:" not in tool.signature
    await prepare_tools([Rouge(), tool])
    assert "engine:transformers" in tool.signature
    await tool.aclose()
    with pytest.raises(ModelClosed):
        await tool.prepare()
    for load in (True, False):
        with pytest.raises(ConfigurationError, match="no model at"):
            await prepare_tools([NLI(model=str(tmp_path / "nowhere"))], load=load)


def test_a_missing_extra_is_named_with_its_install_line():
    with pytest.raises(
        ConfigurationError, match=r"needs nowhere_to_be_found: pip install 'textassay\[nli\]'"
    ):
        check_installed(["json", "nowhere_to_be_found"], extra="nli", what="the nli engine")


REFERENCE, SOURCE = {"references": ("b",)}, {"source": "b"}


@pytest.mark.parametrize(
    ("kind", "options", "given", "reason"),
    [
        *((kind, {}, {}, "MissingReferences") for kind in (Bleurt, BertScore, Embedding)),
        (Bleurt, {"against": "references"}, SOURCE, "MissingReferences"),
        (Bleurt, {"against": "source"}, REFERENCE, "MissingSource"),
        (Embedding, {"against": "context"}, SOURCE, "MissingContext"),
        (NLI, {}, {}, "MissingSource"),
        (NLI, {}, {"output": "", **SOURCE}, "EmptyOutput"),
        (BartScore, {}, {}, "MissingSource"),
        (BartScore, {"direction": "f"}, SOURCE, "MissingReferences"),
        (LMProb, {}, {}, "MissingSource"),
        (UniEval, {"aspect": "coherence"}, REFERENCE, "MissingSource"),
        (UniEval, {"aspect": "relevance"}, SOURCE, "MissingReferences"),
        (UniEval, {"task": "dialogue", "aspect": "groundedness"}, SOURCE, "MissingContext"),
    ],
)
async def test_an_example_that_lacks_an_input_loads_no_model(kind, options, given, reason):
    found = await tiny.score(kind(model="/nowhere", **options), Example(**{"output": "a", **given}))
    assert (found.outcome, found.value, found.error.type) == ("abstained", None, reason)
