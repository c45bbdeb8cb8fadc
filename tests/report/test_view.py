"""`textassay view`: the served page follows a run that grows, at its own address only."""

import asyncio
import json
from contextlib import closing

import aiohttp
import pytest

from tests.browser import complaints, forget_earlier_pages, requested, wait_for
from tests.loopback import in_thread
from tests.report.runs import score, small_data, small_run, write_run
from textassay.report.server import LiveRun, Viewer
from textassay.runtime.errors import RunFolderError
from textassay.runtime.storage.run_files import score_row
from textassay.runtime.storage.run_folder import RunFolder


def served(path):
    """Serve in a thread beside the test; yields the address."""
    return in_thread(lambda: Viewer(path).serving(0))


def append(run, *scores):
    with (run / "scores.jsonl").open("ab") as file:
        file.write(b"".join(score_row(one) + b"\n" for one in scores))


def get(address, **options):
    async def ask():
        async with aiohttp.ClientSession() as session, session.get(address, **options) as answer:
            return answer.status, answer.headers, await answer.text()

    return asyncio.run(ask())


@pytest.fixture
def run(tmp_path):
    return small_run(tmp_path / "runs" / "one", small_data(tmp_path / "data.jsonl"))


def test_news_are_what_was_added(run):
    """Each line reaches a reader once, a replaced score under its own row, a torn line never."""
    live = LiveRun(run)
    first = live.news(0, 0)
    assert (first["total"], len(first["rows"]), len(first["examples"]["ids"])) == (48, 48, 24)
    append(run, score("x0", value=5.0), score("new"))
    with (run / "scores.jsonl").open("ab") as file:
        file.write(b'{"id": "torn"')
    second = live.news(first["cursor"], 24)
    assert second["rows"] == [0, 48]
    assert second["scores"]["value"] == [5.0, 3.0]
    assert second["examples"]["ids"] == ["new"]
    assert live.news(second["cursor"], 25)["rows"] == []
    (run / "scores.jsonl").write_bytes(b"")
    assert live.news(second["cursor"], 25) == {"restart": True}


def test_news_are_those_of_the_report(run):
    """A reader who followed the run has the columns that the report of the finished run has."""
    from textassay.report.examples import score_columns
    from textassay.report.page import join_runs

    live = LiveRun(run)
    news = live.news(0, 0)
    joined = join_runs([live.run], [live.data], {})
    assert news["scores"] == score_columns(live.run, joined, list(range(48)))


def test_page_follows_a_growing_run(run, browser):
    """New scores appear without a reload, with their evidence; no other server is asked."""
    with served(run) as address:
        forget_earlier_pages(browser)
        browser.get(address)
        wait_for(browser, "document.body.dataset.ready === 'true'")
        browser.execute_script("window.stayed = true")
        assert browser.find_element("id", "live").text == "48 scores, finished"
        append(run, score("</script><b>later", value=1.0, explanation="It came <i>late</i>."))
        wait_for(browser, "document.getElementById('live').textContent.startsWith('49 scores')")
        browser.execute_script(
            "location.hash = '#score/' + encodeURIComponent('</script><b>later')"
        )
        wait_for(
            browser,
            "document.querySelector('#detail .said')?.textContent === 'It came <i>late</i>.'",
        )
        assert browser.execute_script("return window.stayed")
        with closing(RunFolder.resume(run)) as again:
            again.write_summary()
        wait_for(browser, "document.getElementById('live').textContent.endsWith('finished')")
        wait_for(
            browser, "document.querySelector('.outcomes td').textContent === '48'"
        )  # and one invalid
        ours = (address, "data:", "about:", "blob:")
        assert [url for url in requested(browser) if not url.startswith(ours)] == []
        assert complaints(browser) == []


def test_folder_of_runs_has_an_index(run, tmp_path, browser):
    """Several runs are listed by their paths, and each leads to its page."""
    write_run(tmp_path / "runs" / "deeper" / "two <&>", [score("a")])
    with served(tmp_path / "runs") as address:
        browser.get(address)
        links = browser.find_elements("css selector", "tbody a")
        assert [link.text for link in links] == ["deeper/two <&>", "one"]
        links[0].click()
        wait_for(browser, "document.getElementById('live')?.textContent === '1 scores, finished'")


def test_answers_are_guarded(run):
    """Pages connect to this server alone, under its own names, and answers are not cached.

    A name that somebody points at the loopback gets nothing (DNS rebinding).
    """
    with served(run) as address:
        _, _, page = get(address)
        assert "default-src &#39;none&#39;" in page
        assert "connect-src &#39;self&#39;" in page
        for path, host, expected in (
            ("", None, 200),
            ("", "[::1]:9", 200),
            ("", "evil.example", 403),
            ("", "127.0.0.1.evil.example", 403),
            ("detail?example=99", None, 404),
            ("detail?example=x", None, 400),
            ("scores?cursor=-1", None, 400),
            ("nowhere", None, 404),
        ):
            status, headers, _ = get(f"{address}{path}", headers={"Host": host} if host else {})
            assert status == expected, (path, host)
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin", status
            assert headers["Cache-Control"] == "no-store", status
            assert headers["X-Content-Type-Options"] == "nosniff", status


def test_no_path_leads_out_of_the_folder(run, tmp_path):
    """Only runs that the index lists can be asked for; serving nothing is a slip."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match="contains no run"):
        Viewer(tmp_path / "empty")
    write_run(tmp_path / "secret", [score("a")])
    with served(tmp_path / "runs") as address:
        assert (get(f"{address}run?run=..%2Fsecret"))[0] == 404
        assert (get(f"{address}run?run=one"))[0] == 200
        _, _, text = get(f"{address}scores?run=one&cursor=0&known=0")
        assert json.loads(text)["total"] == 48


def test_a_run_without_a_score_is_served(tmp_path):
    """A run that has just begun: a file without a line, data with ratings, and then a score."""
    run = small_run(tmp_path / "run", small_data(tmp_path / "data.jsonl"))
    (run / "summary.json").unlink()
    (run / "scores.jsonl").write_bytes(b"")
    with served(run) as address:
        assert get(address)[0] == 200
        assert get(f"{address}sections")[0] == 200
        append(run, score("x0", value=5.0))
        _, _, text = get(f"{address}scores?cursor=0&known=0")
        assert json.loads(text)["scores"]["value"] == [5.0]
