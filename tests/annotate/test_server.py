"""The server: blind, durable, idempotent, closed to other pages; and who sees which item."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.annotate.test_study import examples, study
from tests.waiting import eventually
from textassay.annotate.ratings import CollectedRatings, RaterAnswer, agreement, self_agreement
from textassay.annotate.server import REPEAT_DISTANCE, Allocation, AnnotationServer
from textassay.runtime.errors import ConfigurationError, DataError, StorageError
from textassay.runtime.messages import Example


@asynccontextmanager
async def serving(tmp_path, shown=None, raters=1, **more):
    """Serve a study; yield the ratings, the address, the tokens and a client."""
    async with CollectedRatings(shown or study(per_item=raters), tmp_path / "j.jsonl") as ratings:
        tokens = [(await ratings.add_rater())[1] for _ in range(raters)]
        server = AnnotationServer(ratings, tmp_path / "out.jsonl", **more)
        async with server.serving(0) as port, aiohttp.ClientSession() as client:
            yield ratings, f"http://127.0.0.1:{port}", tokens, client


async def items(client, base, token):
    """Return the items that the server offers."""
    async with client.get(f"{base}/api/{token}/items") as response:
        assert response.status == 200
        return (await response.json())["items"]


async def post(client, base, token, item, ratings, revision=1, **headers):
    """Send an answer; return the status and the reply."""
    answer = {"key": item["key"], "repeat": item["repeat"], "revision": revision}
    answer |= {"ratings": ratings, "seconds": 3.2, "comment": ""}
    async with client.post(f"{base}/api/{token}/ratings", json=answer, headers=headers) as response:
        return response.status, await response.json()


GOOD = {"tone": 4, "polite": 1}


async def test_answers_reach_the_file_of_ratings(tmp_path):
    """In our format, with raters in a fixed order and null where one did not rate."""
    async with serving(tmp_path, raters=2) as (_, base, tokens, client):
        first = (await items(client, base, tokens[0]))[0]
        assert await post(client, base, tokens[0], first, GOOD) == (
            200,
            {"kept": 1, "done": 1, "repeated": 0, "remaining": 5},
        )
    [row] = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert row["human"] == {"tone": 4.0, "polite": 1.0}
    assert row["annotators"] == {"tone": [4.0, None], "polite": [1.0, None]}
    assert row["raters"] == ["r1", "r2"]
    assert row["seconds"] == {"r1": 3.2}
    Example.model_validate({k: v for k, v in row.items() if k in Example.model_fields})
    journal = (tmp_path / "j.jsonl").read_text()
    assert all(token not in journal for token in tokens), "whoever reads it could rate for another"


async def test_the_same_answer_twice_counts_once(tmp_path):
    """A browser that heard nothing sends again; a later revision replaces, an older one does
    not."""
    async with serving(tmp_path) as (ratings, base, [token], client):
        item = (await items(client, base, token))[0]
        for _ in range(3):
            assert (await post(client, base, token, item, GOOD))[0] == 200
        assert (await post(client, base, token, item, {**GOOD, "tone": 2}))[0] == 409
        assert (await post(client, base, token, item, {**GOOD, "tone": 2}, revision=2))[0] == 200
        assert (await post(client, base, token, item, GOOD))[0] == 409
        [answer] = ratings.answers.values()
        assert (answer.ratings["tone"], answer.revision) == (2.0, 2)
    assert sum('"rating"' in line for line in (tmp_path / "j.jsonl").read_text().splitlines()) == 2


async def test_nothing_of_the_judge_or_the_system_leaves_the_server(tmp_path):
    """Every reply that a rater's browser can get, read as a whole."""
    async with serving(tmp_path, raters=2) as (_, base, tokens, client):
        first = (await items(client, base, tokens[0]))[0]
        await post(client, base, tokens[0], first, GOOD)
        seen = ""
        paths = ("study", "items", "history/0")
        for path in [f"/api/{tokens[0]}/{name}" for name in paths] + [f"/rate/{tokens[0]}"]:
            async with client.get(base + path) as response:
                assert response.status == 200
                seen += await response.text()
        other = json.dumps(await items(client, base, tokens[1]))
    for hidden in ("SECRET", "doc-", "4.875", "judge/", tokens[1]):
        assert hidden not in seen
    assert "answer" not in other


async def test_other_pages_and_names_are_refused(tmp_path):
    """A page elsewhere cannot post, and a foreign name that resolves to us is not answered."""
    async with serving(tmp_path) as (ratings, base, [token], client):
        item = (await items(client, base, token))[0]
        here = base.removeprefix("http://")
        for origin in (
            "http://evil.example",
            "null",
            f"http://evil.example://{here}",
            f"chrome-extension://{here}",
        ):
            assert (await post(client, base, token, item, GOOD, Origin=origin))[0] == 403
        assert (await post(client, base, token, item, GOOD, Host="evil.example"))[0] == 403
        async with client.get(base, headers={"Host": "evil.example"}) as response:
            assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert (await post(client, base, token, item, GOOD, Origin=base))[0] == 200
        async with client.get(f"{base}/rate/nobody") as response:
            assert response.status == 404
        async with client.get(f"{base}/rate/{token}") as response:
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert len(ratings.answers) == 1


async def test_behind_a_proxy(tmp_path):
    """The page at the public address may post, whichever Host the proxy sends; others may not."""
    async with serving(tmp_path, public="https://rate.example") as (_, base, [token], client):
        item = (await items(client, base, token))[0]
        for more in (
            {"Origin": "https://rate.example"},
            {"Origin": "https://rate.example", "Host": "rate.example"},
            {"Origin": "https://rate.example", "Host": "Rate.example:8443"},
        ):
            assert (await post(client, base, token, item, GOOD, **more))[0] == 200
        for more in (
            {"Origin": "http://rate.example"},
            {"Origin": "https://evil.example"},
            {"Origin": "https://rate.example", "Host": "evil.example"},
            {"Origin": "https://rate.example", "Host": "rate.example.evil.example"},
            {"Origin": "https://rate.example", "Host": "[rate.example"},
        ):
            assert (await post(client, base, token, item, GOOD, **more))[0] == 403


ANSWER = (
    '{"key": "KEY", "repeat": 0, "revision": 1, "ratings": {"tone": 4, "polite": 1}, "seconds": 1}'
)
HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("sent", "headers"),
    [
        ("[]", {}),
        ("{", {}),
        ('{"key": "x", "repeat": 0, "revision": 1, "ratings": {}, "seconds": 1}', {}),
        ('{"repeat": 0}', {}),
        ("\ud83d", {}),
        # a journal with it could not be read again
        (ANSWER.replace('"seconds": 1', '"seconds": NaN'), {}),
        (ANSWER.replace('"seconds": 1', '"seconds": "NaN"'), {}),
        (ANSWER.replace('"seconds": 1', '"seconds": null'), {}),
        (ANSWER.replace('"tone": 4', f'"tone": {HUGE}'), {}),
        (ANSWER.replace('"tone": 4', f'"tone": {"[" * 30_000}'), {}),
        ("[" * 60_000, {}),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, {}),
        (ANSWER[:-1] + ', "comment": ' + "[" * 900 + "]" * 900 + "}", {}),
        ("{}", {"Content-Type": "application/json; charset=utf-99"}),
        ("{}", {"Content-Type": "application/json; charset=rot13"}),
        ("no deflate", {"Content-Encoding": "deflate"}),
    ],
    ids=range(16),
)
async def test_bodies_that_are_not_answers_are_refused(tmp_path, sent, headers):
    """With a status and a reason; nothing is kept."""
    async with serving(tmp_path) as (ratings, base, [token], client):
        key = (await items(client, base, token))[0]["key"]
        body = sent.replace("KEY", key).encode("utf-8", "surrogatepass")
        url = f"{base}/api/{token}/ratings"
        async with client.post(url, data=body, headers=headers) as response:
            assert response.status == 400
            assert (await response.json())["error"]
            assert response.headers["Cache-Control"] == "no-store"
        assert not ratings.answers


@pytest.mark.parametrize("seconds", ["-1", "1e400", HUGE], ids=range(3))
async def test_whatever_a_clock_says_the_journal_can_be_read_again(tmp_path, seconds):
    """A browser's clock may jump."""
    async with serving(tmp_path) as (_, base, [token], client):
        key = (await items(client, base, token))[0]["key"]
        body = ANSWER.replace("KEY", key).replace('"seconds": 1', f'"seconds": {seconds}')
        async with client.post(f"{base}/api/{token}/ratings", data=body) as response:
            assert response.status == 200
    async with CollectedRatings(study(per_item=1), tmp_path / "j.jsonl") as again:
        assert [answer.seconds for answer in again.answers.values()] in ([0.0], [86400.0])


@pytest.mark.parametrize("position", ["-1", "1", "x", "9" * 5000], ids=range(4))
async def test_an_item_that_was_not_seen_is_not_found(tmp_path, position):
    """Whatever is sent as its position."""
    async with (
        serving(tmp_path) as (_, base, [token], client),
        client.get(f"{base}/api/{token}/history/{position}") as response,
    ):
        assert response.status == 404


async def test_a_swapped_comparison_is_kept_as_what_it_says_of_output(tmp_path):
    """The rater prefers the text shown first; the rating is 1 if that was `output`, else 0."""
    pairs = [
        Example(id=f"p{n}", output=f"ours {n}", meta={"output_b": f"theirs {n}"}) for n in range(12)
    ]
    async with serving(tmp_path, study(pairs)) as (ratings, base, [token], client):
        placed = set()
        while offered := await items(client, base, token):
            item = offered[0]
            shown_first = item["outputs"][0]["text"]
            placed.add(shown_first[:4])
            await post(client, base, token, item, {"tone": 1, "polite": 1})
            answer = next(a for v, a in ratings.answers.items() if v.key == item["key"])
            assert answer.ratings["tone"] == (1.0 if shown_first.startswith("ours") else 0.0)
            async with client.get(f"{base}/api/{token}/history/{item['position']}") as response:
                assert (await response.json())["answer"]["ratings"]["tone"] == 1.0
        assert placed == {"ours", "thei"}


async def test_one_process_at_a_time_collects_ratings(tmp_path):
    """Two would take the same revision of an answer, and each would overwrite the other's file."""
    path = tmp_path / "j.jsonl"
    async with CollectedRatings(study(), path):
        before = path.read_bytes()
        with pytest.raises(StorageError, match="in use by another process"):
            CollectedRatings(study(), path)
        assert path.read_bytes() == before
    async with CollectedRatings(study(), path):
        pass
    path.write_bytes(before.replace(study().digest.encode(), b"0" * 16))
    for _ in range(2):  # the refused one does not stay locked
        with pytest.raises(DataError, match="another study"):
            CollectedRatings(study(), path)


async def test_the_file_is_written_once_that_is_possible_again(tmp_path):
    """Answers are taken meanwhile, and the study's owner learns of it, once."""
    out, said = tmp_path / "out.jsonl", []
    out.mkdir()
    async with serving(tmp_path, warn=said.append) as (_, base, [token], client):
        for _ in range(2):
            first = (await items(client, base, token))[0]
            assert (await post(client, base, token, first, GOOD))[0] == 200
            await eventually(lambda: said)
        [warning] = said
        assert "out.jsonl cannot be written" in warning
        assert "j.jsonl has all answers" in warning
        out.rmdir()
        await eventually(out.is_file)
    assert len(out.read_text().splitlines()) == 2


async def test_a_file_that_cannot_be_written_at_the_end_is_an_error(tmp_path):
    """It says where the answers are."""
    (tmp_path / "out.jsonl").mkdir()

    async def rate_one():
        async with serving(tmp_path) as (_, base, [token], client):
            first = (await items(client, base, token))[0]
            assert (await post(client, base, token, first, GOOD))[0] == 200

    with pytest.raises(StorageError, match=r"out.jsonl cannot be written: .*j.jsonl has all"):
        await rate_one()
    assert (tmp_path / "j.jsonl").read_text().count('"event":"rating"') == 1


async def test_an_answer_that_was_refused_is_taken_later(tmp_path):
    """The browser sends it again; what stood in the way may have gone meanwhile."""
    journal, elsewhere = tmp_path / "j.jsonl", tmp_path / "elsewhere"
    async with serving(tmp_path) as (ratings, base, [token], client):
        first = (await items(client, base, token))[0]
        journal.rename(elsewhere)
        assert (await post(client, base, token, first, GOOD))[0] == 507
        assert not ratings.answers
        elsewhere.rename(journal)
        assert (await post(client, base, token, first, GOOD))[0] == 200
    assert journal.read_text().count('"event":"rating"') == 1


async def test_an_address_that_is_taken_is_an_error(tmp_path):
    """It names the parameter that gives another."""
    async with (
        serving(tmp_path) as (_, base, _, _),
        CollectedRatings(study(), tmp_path / "other.jsonl") as ratings,
    ):
        server = AnnotationServer(ratings, tmp_path / "o.jsonl")
        with pytest.raises(ConfigurationError, match="give another port="):
            async with server.serving(int(base.rpartition(":")[2])):
                raise AssertionError("it was served")


SERVE = "from textassay.cli import main; main()"


async def test_kill_loses_nothing_acknowledged(tmp_path):
    """The server is killed again and again; what it acknowledged is there, once."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(e.model_dump_json() + "\n" for e in examples(8, 2)))
    out, rng = tmp_path / "ratings.jsonl", random.Random(3)
    command = [sys.executable, "-c", SERVE, "annotate", str(data), "--task", "summarization"]
    command += ["--aspects", "fluency", "--out", str(out), "--port", "0", "--new-links"]
    kept: dict[str, float] = {}
    async with aiohttp.ClientSession() as client:
        for _ in range(3):
            server = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
            try:
                address = (await anext(server.stderr)).decode().split()[-1]
                base, _, token = address.partition("/rate/")
                for _ in range(rng.randint(2, 5)):
                    item = (await items(client, base, token))[0]
                    rating = float(rng.randint(1, 5))
                    status, _ = await post(client, base, token, item, {"fluency": rating})
                    assert status == 200
                    kept[item["key"]] = rating
            finally:
                server.send_signal(signal.SIGKILL)
                await server.communicate()
    journal = (tmp_path / "ratings.journal.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in journal]
    found = [(row["item"], row["ratings"]["fluency"]) for row in rows if row["event"] == "rating"]
    assert sorted(found) == sorted(kept.items())


async def test_agreement_grows_with_the_ratings(tmp_path):
    """Raters who agree on everything have an alpha of 1; repeated items show self-agreement."""
    shown = study(examples(20, 2), per_item=2, repeat_share=0.2)
    async with serving(tmp_path, shown, raters=2) as (ratings, base, tokens, client):
        for token in tokens:
            while offered := await items(client, base, token):
                tone = 1 + int(offered[0]["key"], 16) % 5
                await post(client, base, token, offered[0], {"tone": tone, "polite": tone % 2})
        assert agreement(ratings.snapshot())["tone"].alpha["ordinal"] == pytest.approx(1.0)
        again = self_agreement(ratings.snapshot())["tone"]
        assert again["n"] >= 4
        assert again["same"] == 1.0
    # written once a second, and when the server closes
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 40


class Clock:
    """A clock that stops until it is moved."""

    now = 0.0

    def __call__(self):
        return self.now


@asynccontextmanager
async def dealing(tmp_path, shown=None, raters=1, **more):
    """Open the journal of a study; yield it, who deals its items, and the raters."""
    async with CollectedRatings(shown or study(), tmp_path / "j.jsonl") as ratings:
        added = [(await ratings.add_rater())[0] for _ in range(raters)]
        yield ratings, Allocation(ratings, **more), added


async def rate(ratings, assignment, rater):
    """Answer the rater's next item; return the visit, or `None` if there is none."""
    upcoming = assignment.upcoming(rater)
    if not upcoming:
        return None
    visit, position = upcoming[0]
    answer = RaterAnswer({"tone": 3.0, "polite": 1.0}, 1, 2.0, position)
    assert await ratings.record(visit, answer)
    return visit


async def test_each_item_is_rated_as_often_as_wanted_and_by_different_people(tmp_path):
    """Two of three raters rate each item."""
    async with dealing(tmp_path, study(per_item=2), 3) as (ratings, assignment, raters):
        going = True
        while going:
            going = any([await rate(ratings, assignment, rater) for rater in raters])
        counts = Counter(visit.key for visit in ratings.answers)
        assert set(counts.values()) == {2}
        assert len(counts) == 6


async def test_no_rater_gets_all_of_one_system(tmp_path):
    """After any number of items a rater's counts of the systems differ by at most one."""
    shown = study(examples(groups=6, systems=3))
    async with dealing(tmp_path, shown) as (ratings, assignment, [rater]):
        seen = Counter({f"SECRET{n}": 0 for n in range(3)})
        while visit := await rate(ratings, assignment, rater):
            seen[shown.by_key[visit.key].system] += 1
            assert max(seen.values()) - min(seen.values()) <= 1
        assert sum(seen.values()) == 18


async def test_a_lease_that_runs_out_returns_the_item(tmp_path):
    """An item that was shown and not rated waits for its rater, then goes to the next."""
    clock = Clock()
    how = {"lease_seconds": 100, "clock": clock}
    async with dealing(tmp_path, study(examples(1, 1)), 2, **how) as (_, assignment, raters):
        gone, other = raters
        assert len(assignment.upcoming(gone)) == 1
        assert assignment.upcoming(other) == []
        clock.now = 101
        assert len(assignment.upcoming(other)) == 1


async def test_asking_again_gives_the_same_item(tmp_path):
    """A reload changes nothing, nor does a restart of the server."""
    async with dealing(tmp_path) as (_, assignment, [rater]):
        first = assignment.upcoming(rater, 3)
        assert assignment.upcoming(rater, 3) == first
    async with CollectedRatings(study(), tmp_path / "j.jsonl") as again:
        assert Allocation(again).upcoming(again.raters["r1"], 3) == first


async def test_some_items_come_twice_and_far_apart(tmp_path):
    """About the wanted share is repeated, each at most once, with other items between."""
    shown = study(examples(groups=60, systems=2), repeat_share=0.1)
    async with dealing(tmp_path, shown) as (ratings, assignment, [rater]):
        while await rate(ratings, assignment, rater):
            pass
        places = {visit: place for place, visit in enumerate(rater.visits)}
        repeated = [visit for visit in rater.visits if visit.repeat]
        assert 4 <= len(repeated) <= 24
        assert len({visit.key for visit in repeated}) == len(repeated)
        firsts = {visit.key: place for visit, place in places.items() if not visit.repeat}
        assert min(places[v] - firsts[v.key] for v in repeated) >= REPEAT_DISTANCE
        assert len(firsts) == 120
