"""`textassay annotate` and `ratings`, and the way of docs/annotate.md from plan to decision."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import aiohttp
import numpy as np
import pytest

from tests.annotate.test_server import items, post
from tests.browser import browsing, wait_for
from tests.cli.harness import read_lines, rows_of, score, served, textassay, write_lines
from textassay.cli.commands.annotate import exposure
from textassay.methods.library import tasks
from textassay.runtime.data import Examples


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
def test_a_warning_says_what_others_can_read(host, public, warning):
    said = exposure(host, public)
    assert said is None if warning is None else warning in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--public-url", "https://rate.example/study"), "--public-url takes https://HOST"),
        (("--guidelines", "none.md"), "none.md cannot be read"),
    ],
)
def test_studies_that_cannot_be_served_are_refused_before(tmp_path, flags, said):
    data = write_lines(tmp_path / "data.jsonl", [{"id": "a", "output": "b"}])
    asked = ("annotate", data, "--task", "summarization", "--out", tmp_path / "ratings.jsonl")
    textassay(*asked, *flags).ends(2, said)


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
    data, task = tmp_path / "data.jsonl", tmp_path / "task.toml"
    data.write_text(json.dumps({"output": "Where is it?", "human": {"intent": "question"}}))
    task.write_text(
        'name = "t"\nintro = "A message."\noutput_name = "Message"\n[[aspects]]\nname = "intent"\n'
        'definition = "what it is"\n[aspects.labels]\norder = "an order"\nquestion = "a question"\n'
        'complaint = "a complaint"\n'
    )
    with serving(data, task) as link:
        assert "/rate/" in link


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


def test_csv_becomes_our_format_and_texts_are_joined(tmp_path):
    """What people rated elsewhere can be used by every command that reads ratings."""
    out, export = tmp_path / "ratings.jsonl", tmp_path / "ratings.csv"
    data = write_lines(tmp_path / "data.jsonl", [{"id": "a", "output": "It rained."}])
    export.write_text("id,aspect,rater,value\na,fluency,ann,4\na,fluency,bob,2\n")
    textassay("ratings", "import", "csv", export, "--data", data, "-o", out).ok()
    [row] = read_lines(out)
    assert row["output"] == "It rained."
    assert (row["human"], row["annotators"]) == ({"fluency": 3.0}, {"fluency": [4.0, 2.0]})


LABELED = """
name = "support"
intro = "You will be given a message."
[[aspects]]
name = "topics"
definition = "what it is about."
labels = {billing = "an invoice", refund = "money back"}
multiple = true
[[aspects]]
name = "stars"
definition = "how good it is."
labels = {"1 star" = "", "2 stars" = "", "3 stars" = ""}
ordered = true
"""


def test_a_task_shows_the_labels_of_what_is_imported_and_exported(tmp_path):
    """Labels that begin with a number keep their place, and an unknown one is refused."""
    task, data, export = (tmp_path / name for name in ("task.toml", "data.jsonl", "ratings.csv"))
    task.write_text(LABELED)
    data.write_text(json.dumps({"id": "a", "output": "x", "human": {"topics": ["refund"]}}) + "\n")
    tables = tmp_path / "tables"
    textassay("ratings", "export", "csv", data, "--task", task, "-o", tables).ok()
    head = "id,aspect,rater,value\n"
    export.write_text(f"{head}a,stars,ann,2 stars\na,stars,bob,2 stars\na,topics,ann,refund\n")
    out = tmp_path / "rated.jsonl"
    told = ("--data", data, "--task", task, "-o", out)
    textassay("ratings", "import", "csv", export, *told).ok()
    labels = {one.name: one.label_scale for one in tasks.load(task).aspects}
    [example] = Examples(out, labels=labels)
    assert example.annotators["stars"] == (1, 1)
    export.write_text(f"{head}a,stars,ann,4 stars\n")
    done = textassay("ratings", "import", "csv", export, *told)
    assert done.code == 2
    assert "'a', field 'annotators.stars': should be one of 1 star" in done.messages
    done = textassay("ratings", "import", "labelstudio", export, "-o", tmp_path / "none.jsonl")
    assert (done.code, "label-studio" in done.err) == (2, True)
    assert not (tmp_path / "none.jsonl").exists()


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
    data, run = write_lines(tmp_path / "pool.jsonl", rows), tmp_path / "run"

    def reply(body, draw):
        (text,) = re.findall(r"^Text \d+\.$", body["messages"][-1]["content"], re.MULTILINE)
        return f"Rating: {judged[text]:.3f}"

    with served(reply=reply) as server:
        score(data, run, server, "--task", "summarization", aspects="fluency").ok()
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
    """Let people rate what a plan says, in a browser if there is one; return the texts."""
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


async def command(*arguments):
    """Run a command beside the loop of this thread."""
    return await asyncio.to_thread(textassay, *arguments)


async def plan(run, pool, out, *ratings):
    draw = ("--half-width", "0.1", "--next", 40, "-o", out)
    return (await command("label-plan", run, pool, *ratings, *draw)).ok()


@pytest.fixture(params=["interface", "browser"])
def driver(request, tmp_path):
    """A browser in which the first draw is rated, or none."""
    if request.param == "interface":
        yield None
        return
    with browsing(tmp_path / "profile") as opened:
        yield opened


async def test_plan_rate_calibrate_estimate_and_decide(pool, tmp_path, driver):
    """Twice around, without a script between: no text is rated twice, and every rating counts."""
    data, run, people = pool
    first, second = tmp_path / "next.jsonl", tmp_path / "next2.jsonl"
    one, two = tmp_path / "ratings.jsonl", tmp_path / "ratings2.jsonl"

    assert "nothing is rated yet" in (await plan(run, data, first)).err
    rated = await rate(data, first, one, people, driver=driver)
    assert len(rated) == 40
    assert {row["sampling_probability"] for row in read_lines(one)} == {0.2}

    await plan(run, data, second, "--ratings", one)
    again = await rate(data, second, two, people)
    assert (len(again), rated & again) == (40, set())

    both = (run, data, "--ratings", one, "--ratings", two)
    apart = await command("estimate", *both)
    assert (apart.code, "--labels FILE" in apart.err) == (2, True)
    drawn = (*both, "--labels", second)
    found = json.loads((await command("estimate", *drawn, "--json")).ok().out)
    [row] = found["rows"]
    assert (row["n"], row["rated"]) == (200, 80)
    truth = np.mean([np.mean(given) for given in people.values()])
    assert row["judge_only"]["high"] < truth
    assert row["corrected"]["low"] < truth < row["corrected"]["high"]

    calibration, applied = tmp_path / "calibration", tmp_path / "calibrated"
    (await command("calibrate", *drawn, "-o", calibration)).ok()
    (await command("calibrate", run, "--apply", calibration, "-o", applied)).ok()
    covered = [
        row["low"] <= np.mean(people[f"Text {row['id'][1:]}."]) <= row["high"]
        for row in rows_of(applied)
        if not row["outside"]
    ]
    assert np.mean(covered) > 0.8
    measured = (await command("agreement", *both, "--raters", "--json")).ok()
    assert json.loads(measured.out)["rows"][0]["n"] == 80
    tested = (await command("alt-test", *both, "--json")).ok()
    # a judge half a grade below people, who differ by less, does not stand in for them
    assert json.loads(tested.out)["rows"][0]["may_stand_in"] is False
    await plan(run, data, tmp_path / "n3.jsonl", *drawn[2:])
