"""Where models come from: folders, the Hub when offline, and folders that are none."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import NLI, Bleurt, UniEval
from textassay.tools.engines.engine import ModelFiles, locate, longest_input

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
def test_what_is_no_model_is_named(tmp_path, made, message):
    """With what was expected."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name, text in (("broken", "{"), ("list", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        locate(str(tmp_path / made))


def test_offline_the_hub_s_models_are_asked_of_the_cache_only(tmp_path):
    """And the message says how to get the file."""
    tiny.need("huggingface_hub")
    code = textwrap.dedent("""
        from textassay.runtime.errors import ConfigurationError
        from textassay.tools.engines.engine import locate
        try:
            locate("organisation/model@abc123")
        except ConfigurationError as error:
            print(error)
    """)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        cwd=Path(__file__).resolve().parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    assert "hf download organisation/model --revision abc123" in ran.stdout
    assert "give a folder" in ran.stdout


def test_a_cached_snapshot_is_used_offline_and_named_after_its_commit(tmp_path):
    """As the Hub's client lays it out."""
    tiny.need("huggingface_hub")
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--organisation--model"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "v1").write_text(commit)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_text("{}")
    code = (
        "from textassay.tools.engines.engine import locate; "
        "print(locate('organisation/model@v1').label)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        cwd=Path(__file__).resolve().parents[2],
    )
    assert ran.stdout.strip() == "organisation/model@0123456789ab", ran.stderr


@pytest.mark.asyncio
@pytest.mark.parametrize("make", [NLI, Bleurt, UniEval])
@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
async def test_incomplete_folders_are_refused(models, tmp_path, make, missing):
    """Weights or tokenizer missing: an error that stops the run and names the folder."""
    for file in (models / ("t5" if make is UniEval else "nli")).iterdir():
        if file.name not in (missing, "model.onnx") and not (
            missing == "tokenizer.json" and "token" in file.name
        ):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    tool = (
        make(model=str(tmp_path), engine="transformers")
        if make is not UniEval
        else make(model=str(tmp_path))
    )
    with pytest.raises(ConfigurationError, match=r"cannot read|contains no|has no fast form"):
        await tool.score(EXAMPLE)
    await tool.aclose()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("missing", "message"),
    [("model.onnx", "contains no model.onnx"), ("tokenizer.json", "contains no tokenizer.json")],
)
async def test_incomplete_exports_are_refused(models, tmp_path, missing, message):
    """With what to do."""
    for file in (models / "nli-onnx").iterdir():
        if file.name != missing:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    tool = NLI(model=str(tmp_path), engine="onnx")
    with pytest.raises(ConfigurationError, match=message):
        await tool.score(EXAMPLE)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("file", "engine"),
    [("model.safetensors", "transformers"), ("model.onnx", "onnx"), ("tokenizer.json", "onnx")],
)
async def test_damaged_files_are_refused(models, tmp_path, file, engine):
    """Not a crash of some library."""
    for path in (models / "nli").iterdir():
        (tmp_path / path.name).write_bytes(b"garbage" if path.name == file else path.read_bytes())
    with pytest.raises(ConfigurationError, match="cannot read"):
        await NLI(model=str(tmp_path), engine=engine).score(EXAMPLE)


@pytest.mark.asyncio
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
