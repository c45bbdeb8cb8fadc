"""Takes the pictures of the documentation: the report, the viewer and the annotation page.

    python -m tests.report.test_gallery docs/images

Needs Pillow, which makes them small. The tests take them as well, into a folder of their own, and
see that docs/images holds no others.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.browser import browsing, open_file, wait_for
from textassay import ScriptedModel, evaluate_sync
from textassay.demo import data_file
from textassay.report import write_report
from textassay.runtime.model import Model

ROOT = Path(__file__).parents[2]
WINDOW = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
TERMINAL = {"width": 900, "height": 760, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
SERVE = "from textassay.cli import main; main()"
ASPECTS = ("coherence", "relevance")
PICTURES = (
    "report-summary.png", "report.png", "report-dark.png", "report-phone.png", "viewer.png",
    "annotate.png", "annotate-phone.png", "terminal.png",
)  # fmt: skip


def judged(folder: Path, model: str | Model, method: str = "g-eval", **options: object) -> Path:
    """Judge the bundled summaries, and return the run."""
    run = folder / "runs" / "summaries"
    evaluate_sync(
        data_file("summarization"), method=method, task="summarization", aspects=list(ASPECTS),
        model=model, out=run, options=options,
    )  # fmt: skip
    return run


def take(driver: Any, folder: Path, run: Path, work: Path) -> None:
    """Write all pictures into a folder."""
    page = work / "report.html"
    write_report([run], page, human=data_file("summarization"))
    with _screen(driver, WINDOW):
        open_file(driver, page)
        _save(driver, folder / "report-summary.png")
        _open_worst(driver)
        _save(driver, folder / "report.png")
    with _screen(driver, WINDOW, dark=True):
        open_file(driver, page)
        _open_worst(driver)
        _save(driver, folder / "report-dark.png")
    with _screen(driver, PHONE):
        open_file(driver, page)
        _open_worst(driver)
        driver.execute_script("document.getElementById('detail').scrollIntoView()")
        _save(driver, folder / "report-phone.png")
    with _screen(driver, WINDOW), _serving("view", str(run.parent / run.name)) as address:
        driver.get(address)
        wait_for(driver, "document.body.dataset.ready === 'true'")
        driver.execute_script("document.getElementById('texts').scrollIntoView()")
        _save(driver, folder / "viewer.png")
    with _screen(driver, TERMINAL):
        (work / "terminal.html").write_text(_terminal("show", str(run)), encoding="utf-8")
        driver.get((work / "terminal.html").as_uri())
        _save(driver, folder / "terminal.png")
    study = ("annotate", data_file("summarization"), "--task", "summarization", "--aspects",
             ",".join(ASPECTS), "--out", str(work / "ratings.jsonl"))  # fmt: skip
    with _serving(*map(str, study)) as address:
        for size, name in ((WINDOW, "annotate.png"), (PHONE, "annotate-phone.png")):
            with _screen(driver, size):
                driver.get(address)
                wait_for(driver, "document.querySelector('.output') !== null")
                driver.switch_to.active_element.send_keys("4")
                _save(driver, folder / name)


def _terminal(*command: str) -> str:
    """Return what a command prints on a terminal of 100 columns, with its colors, as a page."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE, *command], cwd=ROOT, check=True, capture_output=True,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm-256color"},
    )  # fmt: skip
    screen = Console(width=100, record=True, file=io.StringIO())
    screen.print(
        Text.from_ansi(f"$ textassay {command[0]} runs/{Path(command[1]).name}\n{done.stdout}")
    )
    pre = "<pre style='font:14px/1.35 monospace'>{code}</pre>"
    page = "<body style='background:{background};color:{foreground};margin:20px'>" + pre
    return screen.export_html(theme=MONOKAI, inline_styles=True, code_format=page)


def _open_worst(driver: Any) -> None:
    driver.execute_script(
        "document.querySelector('#window .row').click();"
        "document.getElementById('texts').scrollIntoView()"
    )
    wait_for(driver, "document.querySelector('#detail h3') !== null")


def _save(driver: Any, path: Path) -> None:
    driver.save_screenshot(str(path))


@contextmanager
def _screen(driver: Any, size: dict[str, Any], *, dark: bool = False) -> Iterator[None]:
    """Set the size of the screen and the color scheme for the block."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def _serving(*command: str) -> Iterator[str]:
    """Run a command that serves a page, and yield the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, *command, "--port", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "http://" in line:
                break
        else:
            raise RuntimeError(f"{command} ended")
        # a full pipe would stop the server
        rest = threading.Thread(target=process.stdout.read)
        rest.start()
        try:
            yield line.split()[-1]
        finally:
            process.kill()
            rest.join()
    finally:
        process.kill()
        process.communicate()


MAX_BYTES = 150_000
SIZES = {"terminal": (900, 760), "report-phone": (390, 800), "annotate-phone": (390, 800)}


def test_every_picture_is_taken(browser, tmp_path):
    """Of the report, the viewer and the annotation page, each as large as its screen."""
    model = ScriptedModel(lambda asked: f"Rating: {1 + len(asked.text) % 5}")
    run = judged(tmp_path, model, n=2)
    (tmp_path / "pictures").mkdir()
    take(browser, tmp_path / "pictures", run, tmp_path)
    for name in PICTURES:
        head = (tmp_path / "pictures" / name).read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        width, height = (int.from_bytes(head[at : at + 4]) for at in (16, 20))
        assert (width, height) == SIZES.get(name.partition(".")[0], (1280, 800))


def test_the_pictures_of_the_docs_are_there_and_small():
    """The gallery has every picture that the script takes, and no other."""
    images = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").glob("*.png")}
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert set(images) == set(PICTURES)
    assert [name for name in PICTURES if f"(images/{name})" not in page] == []
    assert {name: size for name, size in images.items() if size > MAX_BYTES} == {}


def reduce(path: Path) -> None:
    """Keep 128 colors of a picture: a third of its size, and no difference that is seen."""
    from PIL import Image

    with Image.open(path) as taken:
        colors = taken.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    colors.save(path, optimize=True)


def main(folder: Path) -> None:
    """Judge by the embedded model, and take the pictures."""
    # selenium does not report a picture that it cannot save
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with browsing(work / "profile") as driver:
            take(driver, folder, judged(work, "embedded", "gptscore"), work)
    for name in PICTURES:
        reduce(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
