"""What screen readers are told of the report, the viewer and the annotation page."""

import pytest

from tests.report.accessibility_tree import faults, inside, named, tree
from tests.report.browser import open_file, wait_for
from tests.report.runs import small_data, small_run
from tests.report.test_accessible import studied
from tests.report.test_view import served
from textassay.report import write_report


@pytest.fixture
def data(tmp_path):
    return small_data(tmp_path / "data.jsonl")


def status(driver):
    """What the live region of the page says."""
    seen = tree(driver)
    [live] = [one for one in seen if one.properties.get("live") == "polite"]
    return " ".join(named(inside(seen, live), "StaticText"))


def test_the_report(data, tmp_path, browser):
    """Names, headers and order; a row says what its numbers are; a filter tells what it left."""
    runs = [small_run(tmp_path / "one", data), small_run(tmp_path / "two", data, shift=1.0)]
    write_report(runs, tmp_path / "report.html")
    open_file(browser, tmp_path / "report.html")
    browser.execute_script("document.querySelector('#window .row').click()")
    wait_for(browser, "document.querySelector('#detail h3') !== null")
    seen = tree(browser)
    assert faults(seen) == []
    assert {"banner", "navigation", "main", "search", "contentinfo"} <= {one.role for one in seen}
    [rows] = [one for one in seen if one.role == "listbox" and one.name == "Scores"]
    spoken = named(inside(seen, rows), "option")
    assert spoken[0] == (
        "x3, M0, coherence 2.50, people 4.00, apart \u22121.50, other run 3.50, change +1.00, flips"
    )
    assert all("people" in one for one in spoken)
    browser.find_element("id", "aspect").send_keys("fluency")
    wait_for(browser, "document.getElementById('count').textContent.includes(' of ')")
    kept, total = status(browser).removesuffix(" scores").split(" of ")
    assert 0 < int(kept) < int(total)


def test_the_viewer(data, tmp_path, browser):
    """The index and a served page have no faults either."""
    small_run(tmp_path / "runs" / "one", data)
    with served(tmp_path / "runs") as address:
        for page in (address, f"{address}run?run=one"):
            browser.get(page)
            assert faults(tree(browser)) == []


def test_the_annotation_page(tmp_path, browser):
    """A rating belongs to a group that names its aspect; what is chosen and saved is told."""
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
