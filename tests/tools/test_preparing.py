"""What a tool lacks is found out before anything is paid for, and said once."""

import asyncio
import os
import shutil
import subprocess
import sys

import pytest

from tests.tools import tiny
from tests.waiting import HANGS_AFTER
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.messages import Example
from textassay.tools import NLI, Rouge, build
from textassay.tools.overlap import MAX_WORD_PAIRS, longest_common_subsequence
from textassay.tools.tool import check_installed, prepare_tools

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
