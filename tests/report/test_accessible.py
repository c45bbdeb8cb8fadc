"""Checks of the rendered page such as accessibility checkers make: contrast, names, focus,
structure."""

from pathlib import Path

import pytest

from tests.report.browser import open_file
from tests.report.runs import small_data, small_run
from textassay.report import write_report

HERE = Path(__file__).parent
CONTRAST = (HERE / "contrast.js").read_text(encoding="utf-8")
STRUCTURE = (HERE / "structure.js").read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path):
    data = small_data(tmp_path / "data.jsonl")
    runs = [small_run(tmp_path / "one", data), small_run(tmp_path / "two", data, shift=1.0)]
    write_report(runs, tmp_path / "report.html")
    return tmp_path / "report.html"


def opened(browser, page):
    open_file(browser, page)
    browser.execute_script(
        "document.querySelector('#window .row').click();"
        "document.querySelectorAll('details').forEach(one => { one.open = true })"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(page, browser, scheme):
    """Every text stands out from what is behind it as WCAG 2.2 AA asks, in both color schemes."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        opened(browser, page)
        assert browser.execute_script(CONTRAST) == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_structure(page, browser):
    """Tables have captions, inputs labels, pictures names or are hidden, headings no gaps, ids no
    twins."""
    opened(browser, page)
    assert browser.execute_script(STRUCTURE) == []


def test_focus_is_seen(page, browser):
    """Whatever a key can reach shows that it is reached."""
    from selenium.webdriver.common.keys import Keys

    open_file(browser, page)
    seen = 0
    for _ in range(25):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        outline = browser.execute_script(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.tagName, e.id || e.textContent, s.outlineStyle, parseFloat(s.outlineWidth)]"
        )
        if outline[0] == "BODY":
            continue
        seen += 1
        assert outline[2] != "none", outline
        assert outline[3] >= 1, outline
    assert seen > 10


def test_phone(page, browser):
    """On a phone nothing is wider than the screen, and a score opens in place of the list."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_file(browser, page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        browser.execute_script("document.querySelector('#window .row').click()")
        assert not browser.find_element("id", "list").is_displayed()
        browser.find_element("class name", "close").click()
        assert browser.find_element("id", "list").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_print(page, browser):
    """Printed, the page has its cases and none of its controls."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        open_file(browser, page)
        assert browser.find_element("id", "static").is_displayed()
        assert not browser.find_element("id", "browser").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
