"""From a plan to a decision: what docs/annotate.md walks through, with people who rate."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import aiohttp
import numpy as np
import pytest

from tests.annotate.test_server import items, post
from tests.cli.harness import textassay

SOURCES, EACH = 40, 5
TASK = ("--task", "summarization", "--aspects", "fluency")


@pytest.fixture
def pool(tmp_path):
    """200 unrated texts of 40 sources, a judge's scores of them, and what people would say."""
    rng = np.random.default_rng(0)
    rows, scores, people = [], [], {}
    for at in range(SOURCES * EACH):
        id_, quality = f"t{at}", rng.normal(3, 1)
        rows.append(
            {"id": id_, "group": f"g{at // EACH}", "source": f"S {at}.", "output": f"Text {at}."}
        )
        value = float(np.clip(quality - 0.5 + rng.normal(0, 0.4), 1, 5))
        scores.append(
            {"id": id_, "aspect": "fluency", "value": value, "scale": [1, 5], "signature": "judge"}
        )
        people[f"Text {at}."] = [
            float(np.clip(round(quality + rng.normal(0, 0.3)), 1, 5)) for _ in range(2)
        ]
    for name, lines in (("pool.jsonl", rows), ("scores.jsonl", scores)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in lines))
    return tmp_path / "pool.jsonl", tmp_path / "scores.jsonl", people


async def rate(pool, plan, out, people, raters=2):
    """Let people rate what a plan says, through the page's own interface; return how many texts."""
    command = [sys.executable, "-m", "textassay", "annotate", str(pool), *TASK, "--port", "0"]
    command += ["--next-from", str(plan), "--out", str(out), "--raters", str(raters)]
    server = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    rated = set()
    try:
        async with aiohttp.ClientSession() as client:
            for rater in range(raters):
                link = (await anext(server.stderr)).decode().split()[-1]
                base, _, token = link.partition("/rate/")
                while offered := await items(client, base, token):
                    text = offered[0]["outputs"][0]["text"]
                    status, _ = await post(
                        client, base, token, offered[0], {"fluency": people[text][rater]}
                    )
                    assert status == 200
                    rated.add(text)
    finally:
        server.send_signal(signal.SIGINT)
        await server.communicate()
    return rated


def plan(scores, pool, out, *ratings):
    return textassay(
        "label-plan", scores, pool, *ratings, "--half-width", "0.1", "--next", 40, "-o", out
    )  # fmt: skip


@pytest.mark.asyncio
async def test_plan_rate_calibrate_estimate_and_decide(pool, tmp_path):
    """Twice around, without a script between: no text is rated twice, and every rating counts."""
    data, scores, people = pool
    first, second = tmp_path / "next.jsonl", tmp_path / "next2.jsonl"
    one, two = tmp_path / "ratings.jsonl", tmp_path / "ratings2.jsonl"

    done = await asyncio.to_thread(plan, scores, data, first)
    assert done.code == 0, done.err
    assert "nothing is rated yet" in done.err
    rated = await rate(data, first, one, people)
    assert len(rated) == 40
    assert {json.loads(line)["sampling_probability"] for line in one.read_text().splitlines()} == {
        0.2
    }

    done = await asyncio.to_thread(plan, scores, data, second, "--ratings", one)
    assert done.code == 0, done.err
    again = await rate(data, second, two, people)
    assert len(again) == 40
    assert not rated & again

    both = (scores, data, "--ratings", one, "--ratings", two)
    apart = await asyncio.to_thread(textassay, "estimate", *both)
    assert (apart.code, "--labels FILE" in apart.err) == (2, True)
    both = (*both, "--labels", second)
    done = await asyncio.to_thread(textassay, "estimate", *both, "--json")
    assert done.code == 0, done.err
    [row] = json.loads(done.out)["rows"]
    assert (row["n"], row["rated"]) == (200, 80)
    truth = np.mean([np.mean(given) for given in people.values()])
    assert row["judge_only"]["high"] < truth
    assert row["corrected"]["low"] < truth < row["corrected"]["high"]

    done = await asyncio.to_thread(
        textassay, "calibrate", *both, "-o", tmp_path / "calibration", "--json"
    )
    assert done.code == 0, done.err
    for command, more in (("meta", ("--raters",)), ("alt-test", ())):
        done = await asyncio.to_thread(textassay, command, *both[:6], *more, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["rows"]
    done = await asyncio.to_thread(plan, scores, data, tmp_path / "n3.jsonl", *both[2:])
    assert done.code == 0, done.err
