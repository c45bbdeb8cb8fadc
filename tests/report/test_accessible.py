"""Contrast, names, focus, structure and the output of screen readers, of all pages."""

from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.annotate.test_study import examples
from tests.browser import faults, inside, named, open_file, tree, wait_for
from tests.loopback import in_thread
from tests.report.runs import small_data, small_run
from tests.report.test_view import served
from textassay.annotate.ratings import CollectedRatings
from textassay.annotate.server import AnnotationServer
from textassay.annotate.study import Study
from textassay.methods.library import tasks
from textassay.report import write_report
from textassay.runtime.messages import Aspect

HERE = Path(__file__).parent
CONTRAST = (HERE / "contrast.js").read_text(encoding="utf-8")
STRUCTURE = (HERE / "structure.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    data = small_data(folder / "data.jsonl")
    runs = [small_run(folder / "one", data), small_run(folder / "two", data, shift=1.0)]
    write_report(runs, folder / "report.html")
    return folder / "report.html"


def flaws(browser):
    """What is not as WCAG 2.2 AA asks: contrast of texts, names, tables, ids."""
    return [one for script in (CONTRAST, STRUCTURE) for one in browser.execute_script(script)]


def opened(browser, page):
    open_file(browser, page)
    browser.execute_script(
        "document.querySelector('#window .row').click();"
        "document.querySelectorAll('details').forEach(one => { one.open = true })"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_structure(page, browser, scheme):
    """Texts stand out as WCAG 2.2 AA asks; tables, inputs and pictures are named, ids unique."""
    with color_scheme(browser, scheme):
        opened(browser, page)
        assert flaws(browser) == []


def test_focus_is_seen(page, browser):
    """Whatever a key can reach shows that it is reached."""
    open_file(browser, page)
    seen = [one for one in reached(browser, 25) if one[0] != "BODY"]
    assert len(seen) > 10
    assert [one for one in seen if one[1] == "none" or one[2] < 1] == []


def test_phone(page, browser):
    """On a phone nothing is wider than the screen, and a score opens in place of the list."""
    with phone(browser):
        open_file(browser, page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        browser.execute_script("document.querySelector('#window .row').click()")
        assert not browser.find_element("id", "list").is_displayed()
        browser.find_element("class name", "close").click()
        assert browser.find_element("id", "list").is_displayed()


def test_print(page, browser):
    """Printed, the page has its cases and none of its controls."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        open_file(browser, page)
        assert browser.find_element("id", "static").is_displayed()
        assert not browser.find_element("id", "browser").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@contextmanager
def studied(folder):
    """Serve a study with a scale, a yes-or-no question and a number; yields a rater's address."""
    asked = (
        Aspect(name="tone", definition="whether the tone is even.", scale=(1, 5)),
        Aspect(name="polite", definition="politeness.", scale=(0, 1), question="Is it polite?"),
        Aspect(name="covered", definition="the share that is covered.", scale=(0, 100)),
    )
    shown = Study(examples(), tasks.load("general", asked), repeat_share=0.0)

    with in_thread(lambda: serving_study(shown, folder)) as address:
        yield address


@asynccontextmanager
async def serving_study(study, folder):
    """Serve a study inside the block; yields a rater's address."""
    async with CollectedRatings(study, folder / "journal.jsonl") as ratings:
        _, token = await ratings.add_rater()
        async with AnnotationServer(ratings, folder / "out.jsonl").serving(0) as port:
            yield f"http://127.0.0.1:{port}/rate/{token}"


@contextmanager
def phone(browser):
    """Have a small screen for the block."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def color_scheme(browser, scheme):
    """Prefer light or dark for the block."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def reached(browser, count):
    """What `count` presses of Tab lead to, in order, with the outline that shows it."""
    from selenium.webdriver.common.keys import Keys

    found = []
    for _ in range(count):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        found.append(
            browser.execute_script(
                "const e = document.activeElement;"
                "const face = e.type === 'radio' ? e.nextElementSibling : e;"
                "const s = getComputedStyle(face);"
                "return [e.id || e.name || e.tagName, s.outlineStyle, parseFloat(s.outlineWidth)]"
            )
        )
    return found


def test_the_annotation_page(tmp_path, browser):
    """Contrast in both schemes, names, focus that is seen and in order, nothing too wide."""
    with studied(tmp_path) as address:
        for scheme in ("light", "dark"):
            with color_scheme(browser, scheme):
                browser.get(address)
                wait_for(browser, "document.querySelector('.output') !== null")
                browser.switch_to.active_element.send_keys("4")  # a chosen rating and a marked one
                browser.execute_script("document.querySelector('form details').open = true")
                assert browser.execute_script(CONTRAST) == []
                browser.find_element("id", "help-button").click()
                assert browser.execute_script(CONTRAST) == []
                browser.find_element("id", "help-close").click()
        assert browser.execute_script(STRUCTURE) == []
        browser.execute_script("document.querySelector('.given p').focus()")
        order = reached(browser, 8)
        assert [name for name, _, _ in order] == [
            "q0", "q1", "n2", "q2", "SUMMARY", "comment", "help-button", "next",
        ]  # fmt: skip
        assert [one for one in order if one[1] == "none" or one[2] < 1] == []
        with phone(browser):
            browser.get(address)
            wait_for(browser, "document.querySelector('.output') !== null")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
            assert browser.execute_script("return scrollY") == 0, "raters read before they rate"


def test_the_viewer(tmp_path, browser):
    """The index and a run's page as they are served, in both schemes, and on a phone."""
    data = small_data(tmp_path / "data.jsonl")
    for name in ("one", "two"):
        small_run(tmp_path / "runs" / name, data)
    with served(tmp_path / "runs") as address:
        for scheme in ("light", "dark"):
            with color_scheme(browser, scheme):
                browser.get(address)
                assert flaws(browser) == []
                assert faults(tree(browser)) == []
                browser.get(f"{address}run?run=one")
                wait_for(browser, "document.body.dataset.ready === 'true'")
                browser.execute_script("document.querySelector('#window .row').click()")
                wait_for(browser, "document.querySelector('#detail h3') !== null")
                assert flaws(browser) == []
                assert faults(tree(browser)) == []
        browser.get(address)
        assert [one for one in reached(browser, 3) if one[1] == "none" or one[2] < 1] == []


def status(driver):
    """What the live region of the page says."""
    seen = tree(driver)
    [live] = [one for one in seen if one.properties.get("live") == "polite"]
    return " ".join(named(inside(seen, live), "StaticText"))


def test_screen_readers_of_the_report(page, browser):
    """Names, headers and order; a row says what its numbers are; a filter says how many remain."""
    open_file(browser, page)
    browser.execute_script("document.querySelector('#window .row').click()")
    wait_for(browser, "document.querySelector('#detail h3') !== null")
    seen = tree(browser)
    assert faults(seen) == []
    assert {"banner", "navigation", "main", "search", "contentinfo"} <= {one.role for one in seen}
    [rows] = [one for one in seen if one.role == "listbox" and one.name == "Scores"]
    spoken = named(inside(seen, rows), "option")
    assert spoken[0] == (
        "x3, M0, coherence 2.50, people 4.00, apart \u22121.50, other run 3.50, "
        "A minus B \u22121.00, flips"
    )
    assert all("people" in one for one in spoken)
    browser.find_element("id", "aspect").send_keys("fluency")
    wait_for(browser, "document.getElementById('count').textContent.includes(' of ')")
    kept, total = status(browser).removesuffix(" scores").split(" of ")
    assert 0 < int(kept) < int(total)


def test_screen_readers_of_the_annotation_page(tmp_path, browser):
    """A rating belongs to a group that names its aspect; choices and saving are announced."""
    with studied(tmp_path) as address:
        browser.get(address)
        wait_for(browser, "document.querySelector('.output') !== null")
        browser.switch_to.active_element.send_keys("4")
        seen = tree(browser)
        assert faults(seen) == []
        [group] = [one for one in seen if one.role == "group" and one.name == "Tone"]
        choices = [one for one in inside(seen, group) if one.role == "radio"]
        assert [one.name for one in choices] == ["1", "2", "3", "4", "5", "Cannot judge"]
        assert [one.name for one in choices if one.properties["checked"] == "true"] == ["4"]
        browser.switch_to.active_element.send_keys("y")
        browser.find_element("name", "n2").send_keys("50")
        browser.find_element("id", "next").click()
        wait_for(browser, "document.getElementById('saved').textContent === 'All saved'")
        assert status(browser) == "All saved"
