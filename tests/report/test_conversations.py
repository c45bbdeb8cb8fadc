"""Conversations by turn, passages by number, tool calls folded: report, viewer and annotation."""

import pytest

from tests.browser import open_file, wait_for
from tests.loopback import in_thread
from tests.report.runs import score, write_data, write_run
from tests.report.test_accessible import color_scheme, flaws, serving_study
from textassay.annotate.study import MOST_OF_PIECE, Study
from textassay.methods.library import tasks
from textassay.report import write_report
from textassay.report.server import LiveRun
from textassay.runtime.messages import Aspect, Example

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "JFK"}'}}
MESSAGES = [
    {"role": "system", "content": "Keep to the policy."},
    {"role": "user", "content": "Book <b>a flight</b>."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "flight HAT136 " * 3},
    {"role": "assistant", "content": "Booked it."},
]
ROW = {
    "id": "c0", "messages": MESSAGES, "human": {"coherence": 3},
    "context": ["Fares are low.", {"id": "doc-7", "title": "Rules", "text": "No refunds."}],
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    data = write_data(tmp_path / "data.jsonl", [ROW, {"id": "plain", "output": "a", "source": "b"}])
    return write_run(tmp_path / "run", [score("c0"), score("plain")], data)


def turns(browser, within):
    """Each turn of a drawn conversation: its class, and its lines that are not folded."""
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((turn) => [turn.className,"
        " ...[...turn.children].map((one) => one.querySelector('summary') ?? one)"
        ".map((one) => one.textContent)])",
        f"{within} .turn",
    )


def test_report_shows_turns_and_passages(run, tmp_path, browser):
    """By role and number, a call folded with its result, the judged answer in its place."""
    write_report([run], tmp_path / "r.html")
    for scheme in ("light", "dark"):
        with color_scheme(browser, scheme):
            open_file(browser, tmp_path / "r.html", "#score/c0/coherence")
            wait_for(browser, "document.querySelectorAll('#detail .pieces').length === 2")
            assert turns(browser, "#detail") == [
                ["turn system", "system Keep to the policy."],
                ["turn user", "turn 1 user", "Book <b>a flight</b>."],
                ["turn assistant", "turn 2 assistant", "I look.", 'call 1 find({"q": "JFK"})',
                 "The text that is judged, above."],
                ["turn passage", "passage 1", "Fares are low."],
                ["turn passage", "passage 2 doc-7 - Rules", "No refunds."],
            ]  # fmt: skip
            result = "document.querySelector('#detail .assistant .tool')"
            assert not browser.execute_script(f"return {result}.open")
            browser.execute_script(f"{result}.open = true")
            assert "flight HAT136 flight" in browser.execute_script(f"return {result}.innerText")
            assert flaws(browser) == []
    browser.find_element("id", "search").send_keys("hat136")  # what a tool returned is searched
    wait_for(browser, "document.getElementById('count').textContent === '1 of 2 scores'")


def test_page_without_a_script_has_the_turns(run, tmp_path):
    """In print and without JavaScript, escaped."""
    write_report([run], tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8").split("<script")[0]
    call = "find({&#34;q&#34;: &#34;JFK&#34;})"
    answer = "The text that is judged, above."
    escaped = "Book &lt;b&gt;a flight&lt;/b&gt;."
    for words in ("turn 1", escaped, call, "turn 2, call 1, result", "passage 2", answer):
        assert words in page, words


def test_viewer_gives_the_same_pieces(run):
    """Texts by their places, those that two pieces share once."""
    live = LiveRun(run)
    live.news(0, 0)
    shown = live.detail(0)
    assert [part["kind"] for part in shown["given"]] == ["conversation", "passages"]
    first = shown["given"][0]["pieces"]
    assert [(piece["kind"], piece["turn"], piece["call"]) for piece in first] == [
        ("system", 0, 0), ("text", 1, 0), ("text", 2, 0), ("call", 2, 1), ("result", 2, 1),
        ("answer", 2, 0),
    ]  # fmt: skip
    assert shown["texts"][first[1]["text"]] == "Book <b>a flight</b>."


def test_annotation_shows_turns_and_passages(tmp_path, browser):
    """As the report does; the rated text is below, and contrast and structure hold."""
    long = {"role": "user", "content": "x" * (MOST_OF_PIECE + 5_000)}
    example = Example(**{**ROW, "messages": [*MESSAGES[:4], long, MESSAGES[4]]})
    asked = (Aspect(name="tone", definition="whether the tone is even.", scale=(1, 5)),)
    study = Study([example], tasks.load("general", asked), repeat_share=0.0)
    with in_thread(lambda: serving_study(study, tmp_path)) as address:
        for scheme in ("light", "dark"):
            with color_scheme(browser, scheme):
                browser.get(address)
                wait_for(browser, "document.querySelectorAll('.pieces').length === 2")
                assert flaws(browser) == []
        found = turns(browser, "#texts")
        assert [one[:2] for one in found[1:4]] == [
            ["turn user", "turn 1 user"], ["turn assistant", "turn 2 assistant"],
            ["turn user", "turn 3 user"],
        ]  # fmt: skip
        assert "characters left out ...]" in found[3][2]
        assert found[4] == ["turn assistant", "turn 4 assistant", "The text to rate, below."]
        assert browser.find_element("css selector", ".output .content").text == "Booked it."
