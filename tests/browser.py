"""Drives Debian's Chromium without a window, and reads what it hands to a screen reader.

Tests that need it are skipped where it is absent.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANGS_AFTER

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--force-prefers-reduced-motion", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1280,900",
)  # fmt: skip


@contextmanager
def browsing(profile: Path) -> Iterator[Any]:
    """A browser with a profile of its own; its requests and messages are recorded."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver: apt install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = _started(lambda: webdriver.Chrome(options=options, service=Service(DRIVER)))
    driver.set_script_timeout(HANGS_AFTER)
    try:
        yield driver
    finally:
        driver.quit()


def _started(start: Callable[[], Any]) -> Any:
    """Start a browser; on a busy machine it may take longer than its driver waits for it."""
    from selenium.common.exceptions import WebDriverException

    for _ in range(2):
        with suppress(WebDriverException):
            return start()
    return start()


def forget_earlier_pages(driver: Any) -> None:
    """Leave the page that is open and forget what it and earlier ones asked for and complained of.

    A page of a viewer asks as long as it is open, and complains once its server has ended; a new
    browser still loads its own start page.
    """
    driver.get("about:blank")
    requested(driver), complaints(driver)


def requested(driver: Any) -> list[str]:
    """Addresses that the page asked for since the last call."""
    import json

    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def complaints(driver: Any) -> list[str]:
    """The messages in the browser's console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]


def wait_for(driver: Any, condition: str, *, seconds: float = HANGS_AFTER) -> Any:
    """Wait until a JavaScript expression is true, and return its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, poll_frequency=0.05).until(
        lambda open_: open_.execute_script(f"return {condition}")
    )


def open_file(driver: Any, path: Path, anchor: str = "") -> None:
    """Open a report and wait until its list is there."""
    driver.get("about:blank")
    driver.get(f"{path.as_uri()}{anchor}")
    wait_for(driver, "document.body.dataset.ready === 'true'")


@contextmanager
def without_javascript(driver: Any) -> Iterator[None]:
    """Turn JavaScript off for the block."""
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


CONTROLS = {
    "button", "checkbox", "combobox", "DisclosureTriangle", "link", "listbox", "option", "radio",
    "searchbox", "slider", "spinbutton", "textbox",
}  # fmt: skip


@dataclass(frozen=True)
class Element:
    """One node that a screen reader meets."""

    id: str
    role: str
    name: str
    properties: dict[str, Any]
    children: tuple[str, ...]


def tree(driver: Any) -> list[Element]:
    """All nodes of the page; one that screen readers pass by has no role, and may have children."""
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        Element(
            node["nodeId"],
            "" if node["ignored"] else str(node["role"]["value"]),
            str(node.get("name", {}).get("value", "")),
            {one["name"]: one["value"].get("value") for one in node.get("properties", ())},
            tuple(node.get("childIds", ())),
        )
        for node in nodes
    ]


def named(elements: list[Element], role: str) -> list[str]:
    """Names of all elements of a role."""
    return [one.name for one in elements if one.role == role]


def inside(elements: list[Element], root: Element) -> list[Element]:
    """An element and everything below it, in reading order."""
    by_id = {one.id: one for one in elements}
    found, waiting = [], [root.id]
    while waiting:
        one = by_id.get(waiting.pop())
        if one is not None:
            found.append(one)
            waiting += reversed(one.children)
    return found


def faults(elements: list[Element]) -> list[str]:
    """Controls without a name, tables without a name or headers, headings that skip a level."""
    found = [
        f"{one.role} without a name" for one in elements if one.role in CONTROLS and not one.name
    ]
    for table in (one for one in elements if one.role in ("table", "grid")):
        cells = {one.role for one in inside(elements, table)}
        if not table.name or not cells & {"columnheader", "rowheader"}:
            found.append(f"table {table.name!r} without a name or headers: {sorted(cells)}")
    level = 0
    page = next(one for one in elements if one.role == "RootWebArea")
    for one in inside(elements, page):
        if one.role == "heading":
            if one.properties["level"] > level + 1:
                found.append(f"heading {one.name!r} skips a level")
            level = one.properties["level"]
    return found
