"""Where models come from, and that what a tool lacks is found out before anything is paid for."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.tools import tiny
from tests.waiting import HANGS_AFTER
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.messages import Example
from textassay.tools import NLI, Bleurt, Rouge, UniEval, build
from textassay.tools.engines import ModelFiles, locate, longest_input
from textassay.tools.overlap import MAX_WORD_PAIRS, longest_common_subsequence
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
        from textassay.tools.engines import locate
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
        "from textassay.tools.engines import locate; print(locate('organisation/model@v1').label)"
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


def offline(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"HF_HUB_OFFLINE": "1"},
        {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"},  # nothing listens there
    ],
    ids=["offline", "unreachable"],
)
def test_a_model_that_cannot_be_fetched_is_one_clear_message(tmp_path, environment):
    """Eighty scores wait for it: one error of ours, and nothing of asyncio's on the terminal."""
    tiny.need("torch", "transformers")
    done = offline(UNREACHABLE, HF_HOME=str(tmp_path), **environment)
    assert "ConfigurationError the model 'cross-encoder/nli-deberta-v3-base'" in done.stdout
    assert "hf download" in done.stdout
    assert "never retrieved" not in done.stderr
    assert len(done.stderr.splitlines()) < 3


@pytest.mark.asyncio
async def test_tools_are_prepared_before_they_are_used(models, tmp_path):
    """A loaded model is ready; a missing folder is an error without any score, also if nothing is
    loaded."""
    tool = NLI(model=str(models / "nli"))
    await prepare_tools([Rouge(), tool])
    assert "engine:transformers" in tool.signature
    await tool.aclose()
    for load in (True, False):
        lacking = NLI(model=str(tmp_path / "nowhere"))
        with pytest.raises(ConfigurationError, match="no model at"):
            await prepare_tools([lacking], load=load)
        await lacking.aclose()


@pytest.mark.asyncio
async def test_looking_loads_nothing(models, tmp_path):
    # a folder of its own: a tool of another test that still holds the model would have loaded it
    tool = NLI(model=str(shutil.copytree(models / "nli", tmp_path / "nli")))
    await tool.prepare(load=False)
    assert "engine:" not in tool.signature
    await tool.aclose()
    with pytest.raises(ModelClosed):
        await tool.prepare()


def test_a_missing_extra_is_named_with_its_install_line():
    with pytest.raises(
        ConfigurationError, match=r"needs nowhere_to_be_found: pip install 'textassay\[nli\]'"
    ):
        check_installed(["json", "nowhere_to_be_found"], extra="nli", what="the nli engine")


@pytest.mark.asyncio
async def test_rouge_l_of_very_long_texts_ends_and_leaves_the_loop_alone():
    """40,000 words a side; the loop wakes up while they are counted."""
    words = [f"w{i % 997}" for i in range(40_000)]
    example = Example(output=" ".join(words), references=(" ".join(reversed(words)),))
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    found = await build(["rougeL"])[0].score(example)
    ticking.cancel()
    assert 0 < found.value < 1
    assert ticks > 3


@pytest.mark.asyncio
async def test_rouge_lsum_says_when_texts_are_too_long():
    """Its table cannot be filled in reasonable time; no score is better than a run that hangs."""
    text = "word " * (int(MAX_WORD_PAIRS**0.5) + 1)
    found = await build(["rougeLsum"])[0].score(Example(output=text, references=(text,)))
    assert (found.outcome, found.error.type) == ("abstained", "TextTooLong")


def test_the_longest_common_subsequence_is_rouge_scores_own():
    """On 200 random pairs, with repeats, empties and words that the other lacks."""
    import random

    from rouge_score.rouge_scorer import _lcs_table

    rng = random.Random(4)
    for _ in range(200):
        one, other = ([rng.choice("abcdefg") for _ in range(rng.randrange(30))] for _ in range(2))
        assert longest_common_subsequence(one, other) == _lcs_table(one, other)[-1][-1]
