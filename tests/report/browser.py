"""Drives Debian's Chromium without a window; tests that need it are skipped where it is absent."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """What the browser wrote to its console since the last call."""
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
