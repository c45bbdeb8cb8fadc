"""The page in headless Chromium: from a file, without JavaScript, hostile texts, by keyboard."""

import pytest

from tests.browser import (
    complaints,
    forget_earlier_pages,
    open_file,
    requested,
    wait_for,
    without_javascript,
)
from tests.report.runs import score, small_data, small_run, write_data, write_run
from textassay.report import write_report

HOSTILE = {
    "closing-script": "</script><script>window.owned = 1</script>",
    "image": '<img src=x onerror="window.owned = 1"><svg onload="window.owned = 1">',
    "template": "{{ 7 * 7 }} ${window.owned = 1} <!-- ]]>",
    "reversed": "safe \u202etxet desrever\u2066 end",
    "nul": "before\x00after\x1b[31mred",
    "surrogate": "half \ud83d pair",
    "long": "a" * 1_000_000,
    "entity": "&lt;b&gt; &amp;amp; \"quoted\" 'single'",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    write_report([small_run(folder / "run", small_data(folder / "data.jsonl"))], folder / "r.html")
    return folder / "r.html"


def asked_elsewhere(browser):
    """Return what the page asked for beside itself."""
    return [u for u in requested(browser) if not u.startswith(("file:", "data:", "about:"))]


def rows(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#window .row')].map(row => row.innerText)"
    )


def test_file_asks_for_nothing(page, browser):
    """Opened from disk, the page makes no request beside itself and the console stays empty."""
    forget_earlier_pages(browser)
    open_file(browser, page)
    assert asked_elsewhere(browser) == []
    assert complaints(browser) == []
    assert len(rows(browser)) >= 20


def test_without_javascript(page, browser):
    """Tables, pictures and the first cases are there for readers who run no script."""
    with without_javascript(browser):
        browser.get(page.as_uri())
        text = browser.find_element("tag name", "body").text
        assert "all texts" in text
        assert "length in words" in text
        assert "is it clear?" in text
        assert not browser.find_element("id", "browser").is_displayed()
        assert browser.find_element("id", "static").is_displayed()


def test_hostile_texts_are_shown_as_text(tmp_path, browser):
    """Nothing in a text, an id, a system or a judge's words runs, loads, hides or reverses."""
    data = write_data(
        tmp_path / "data.jsonl",
        [
            {"id": f"{name} <b>", "output": text if name != "surrogate" else "half",
                "system": HOSTILE["image"],
             "source": HOSTILE["closing-script"], "human": {"coherence": 1}}
            for name, text in HOSTILE.items()
        ],
    )  # fmt: skip
    message = [
        score(f"{name} <b>", explanation=text,
            evidence=({"text": text, "p_yes": 0.5, "answer": text[:30]},))
        for name, text in HOSTILE.items()
    ]  # fmt: skip
    write_report([write_run(tmp_path / "run", message, data)], tmp_path / "report.html")
    forget_earlier_pages(browser)
    open_file(browser, tmp_path / "report.html")
    for name in HOSTILE:
        browser.execute_script(
            "location.hash = '#score/' + encodeURIComponent(arguments[0])", f"{name} <b>"
        )
        wait_for(
            browser, f"document.querySelector('#detail h3')?.innerText.startsWith('{name} <b>')"
        )
        shown = browser.find_element("id", "detail").get_attribute("textContent")
        expected = {
            "reversed": "safe [U+202E]txet desrever[U+2066] end",
            "nul": "before␀after␛[31mred",
            "surrogate": "half [U+D83D] pair",
            "long": "[... 980,000 more characters]",
        }.get(name, HOSTILE[name])
        assert expected in shown
    assert browser.execute_script("return window.owned") is None
    assert not browser.execute_script("return document.querySelector('#texts img, #detail script')")
    assert asked_elsewhere(browser) == []
    assert complaints(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_search_filter_and_sort(page, browser):
    """By words of a text, aspect, system, outcome and distance; what is left is counted."""
    open_file(browser, page)
    browser.find_element("id", "search").send_keys("place 7")  # words of sources and outputs
    wait_for(browser, "document.getElementById('count').textContent.startsWith('10 of 48')")
    browser.execute_script("document.getElementById('filters').reset()")
    choose = (
        "const made = document.getElementById(arguments[0]); made.value = arguments[1];"
        "made.dispatchEvent(new Event('change'))"
    )
    browser.execute_script(choose, "outcome", "2")
    assert browser.find_element("id", "count").text == "1 of 48 scores"
    assert "x5" in rows(browser)[0]
    assert "invalid" in rows(browser)[0]
    browser.execute_script(choose, "outcome", "")
    browser.execute_script(choose, "system", "1")
    browser.execute_script(choose, "aspect", "0")
    assert browser.find_element("id", "count").text == "8 of 48 scores"
    browser.execute_script(choose, "apart", "0.5")
    apart = [abs(float(row.split("\n")[-1].replace("−", "-"))) for row in rows(browser)]
    assert apart == sorted(apart, reverse=True)
    assert all(gap >= 2 for gap in apart)


def test_link_opens_one_score(page, browser):
    """`#score/ID/ASPECT` and the short `#ID` lead to a score, whose evidence is there."""
    open_file(browser, page, "#score/x7/fluency")
    wait_for(browser, "document.querySelector('#detail h3')?.innerText.includes('x7 fluency')")
    open_file(browser, page, "#x9")
    wait_for(browser, "document.querySelector('#detail h3')?.innerText.includes('x9 coherence')")
    assert "is it clear?" in browser.find_element("id", "detail").text
    assert "Because of reason 9." in browser.find_element("id", "detail").text


def test_keyboard_alone(page, browser):
    """Search by `/`, move by arrows, open, and come back."""
    from selenium.webdriver.common.keys import Keys

    open_file(browser, page)
    body = browser.find_element("tag name", "body")
    body.send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert browser.switch_to.active_element.get_attribute("id") == "list"
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "detail"
    listing = browser.find_element("id", "list")
    active = browser.find_element("id", listing.get_attribute("aria-activedescendant"))
    assert active.get_attribute("aria-selected") == "true"
    assert active.get_attribute("aria-posinset") == "2"
    listing.send_keys(Keys.END)
    wait_for(browser, "document.querySelector('[aria-posinset=\"48\"]') !== null")


def test_second_run_in_the_list(tmp_path, browser):
    """With two runs the list begins with flips, and shows both values and the evidence of both."""
    data = small_data(tmp_path / "data.jsonl")
    one = small_run(tmp_path / "one", data)
    two = small_run(tmp_path / "two", data, shift=1.0)
    write_report([one, two], tmp_path / "report.html")
    open_file(browser, tmp_path / "report.html")
    first = rows(browser)[0]
    assert "⇄" in first
    browser.execute_script("document.querySelector('#window .row').click()")
    wait_for(browser, "document.querySelectorAll('#detail h3').length === 3")
    assert "Second run" in browser.find_element("id", "detail").text
