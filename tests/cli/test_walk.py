"""From a plan to a decision: what docs/annotate.md walks through, with people who rate."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys

import aiohttp
import numpy as np
import pytest

from tests.annotate.test_server import items, post
from tests.browser import browsing, wait_for
from tests.cli.harness import served, textassay

SOURCES, EACH = 40, 5
TASK = ("--task", "summarization", "--aspects", "fluency")


@pytest.fixture
def pool(tmp_path):
    """200 unrated texts of 40 sources, a run over them, and what people would say."""
    rng = np.random.default_rng(0)
    rows, judged, people = [], {}, {}
    for at in range(SOURCES * EACH):
        id_, quality = f"t{at}", rng.normal(3, 1)
        rows.append(
            {"id": id_, "group": f"g{at // EACH}", "source": f"S {at}.", "output": f"Text {at}."}
        )
        judged[f"Text {at}."] = float(np.clip(quality - 0.5 + rng.normal(0, 0.4), 1, 5))
        people[f"Text {at}."] = [
            float(np.clip(round(quality + rng.normal(0, 0.3)), 1, 5)) for _ in range(2)
        ]
    data, run = tmp_path / "pool.jsonl", tmp_path / "run"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def reply(body, draw):
        (text,) = re.findall(r"^Text \d+\.$", body["messages"][-1]["content"], re.MULTILINE)
        return f"Rating: {judged[text]:.3f}"

    with served(reply=reply) as server:
        flags = ("--method", "llm-score", "-m", "direct/judge", "--api-base", server.url)
        done = textassay("score", data, *flags, *TASK, "-o", run)
    assert done.code == 0, done.err
    return data, run, people


RATE = """
const done = arguments[arguments.length - 1];
const before = document.querySelector('.output p');
if (!before) return done(null);
const value = String(arguments[0][before.textContent]);
[...document.querySelectorAll('fieldset input')].find((input) => input.value === value).click();
document.getElementById('next').click();
const watch = setInterval(() => {
  if (document.querySelector('.output p') === before) return;
  clearInterval(watch);
  done(before.textContent);
}, 2);
"""


def rate_in(driver, link, given):
    """Rate as one person in a browser until the page has no text left; return the texts."""
    driver.get(link)
    wait_for(driver, "document.querySelector('.output') !== null")
    rated = set()
    while (text := driver.execute_async_script(RATE, given)) is not None:
        rated.add(text)
    wait_for(driver, "document.getElementById('saved').textContent === 'All saved'")
    return rated


async def rate(pool, plan, out, people, raters=2, driver=None):
    """Let people rate what a plan says; return the texts.

    In a browser if there is one, else through the page's own interface.
    """
    command = [sys.executable, "-m", "textassay", "annotate", str(pool), *TASK, "--port", "0"]
    command += ["--next-from", str(plan), "--out", str(out), "--raters", str(raters)]
    server = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    rated = set()
    try:
        async with aiohttp.ClientSession() as client:
            for rater in range(raters):
                link = (await anext(server.stderr)).decode().split()[-1]
                if driver is not None:
                    given = {text: int(both[rater]) for text, both in people.items()}
                    rated |= await asyncio.to_thread(rate_in, driver, link, given)
                    continue
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


def plan(run, pool, out, *ratings):
    return textassay(
        "label-plan", run, pool, *ratings, "--half-width", "0.1", "--next", 40, "-o", out
    )  # fmt: skip


@pytest.fixture(params=["interface", "browser"])
def driver(request, tmp_path):
    """A browser in which the first draw is rated, or none."""
    if request.param == "interface":
        yield None
        return
    with browsing(tmp_path / "profile") as opened:
        yield opened


@pytest.mark.asyncio
async def test_plan_rate_calibrate_estimate_and_decide(pool, tmp_path, driver):
    """Twice around, without a script between: no text is rated twice, and every rating counts."""
    data, run, people = pool
    first, second = tmp_path / "next.jsonl", tmp_path / "next2.jsonl"
    one, two = tmp_path / "ratings.jsonl", tmp_path / "ratings2.jsonl"

    done = await asyncio.to_thread(plan, run, data, first)
    assert done.code == 0, done.err
    assert "nothing is rated yet" in done.err
    rated = await rate(data, first, one, people, driver=driver)
    assert len(rated) == 40
    assert {json.loads(line)["sampling_probability"] for line in one.read_text().splitlines()} == {
        0.2
    }

    done = await asyncio.to_thread(plan, run, data, second, "--ratings", one)
    assert done.code == 0, done.err
    again = await rate(data, second, two, people)
    assert len(again) == 40
    assert not rated & again

    both = (run, data, "--ratings", one, "--ratings", two)
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
    applied = tmp_path / "calibrated"
    done = await asyncio.to_thread(
        textassay, "calibrate", run, "--apply", tmp_path / "calibration", "-o", applied
    )
    assert done.code == 0, done.err
    covered = [
        score["low"] <= np.mean(people[f"Text {score['id'][1:]}."]) <= score["high"]
        for score in map(json.loads, (applied / "scores.jsonl").read_text().splitlines())
        if not score["outside"]
    ]
    assert np.mean(covered) > 0.8
    done = await asyncio.to_thread(textassay, "meta", *both[:6], "--raters", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"][0]["n"] == 80
    done = await asyncio.to_thread(textassay, "alt-test", *both[:6], "--json")
    assert done.code == 0, done.err
    # a judge half a grade below people, who differ by less, does not stand in for them
    assert json.loads(done.out)["rows"][0]["may_stand_in"] is False
    done = await asyncio.to_thread(plan, run, data, tmp_path / "n3.jsonl", *both[2:])
    assert done.code == 0, done.err
