"""The cost of the pytest plugin in a session that does not use it.

    python -m benchmarks.pytest_plugin [--starts 25]

The CPU time of one collection of an empty test file, in processes of their own that take turns:
with pytest alone, with the plugin installed from a checkout, and from a wheel by uv or pip. The
result is the median difference between neighboring starts, with its quartiles: of the collection
itself, which the target of 5 ms is about, and of the whole session.

At its start pytest reads the list of files of every distribution that has a plugin, even if the
plugin does nothing. A wheel lists each module, and pip each compiled module too, so that time is
reported separately: the plugin cannot lower it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.server import ROOT

TARGET_MS = 5.0
COLLECT = """
import time, pytest

class Phases:
    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self):
        began = time.process_time()
        result = yield
        self.collection = time.process_time() - began
        return result

phases, began = Phases(), time.process_time()
pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", "--rootdir", "."], plugins=[phases])
print(time.process_time() - began, phases.collection)
"""
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=25)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, tests = Path(name), Path(name, "tests")
        tests.mkdir()
        (tests / "test_nothing.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
        site = pytest_alone(folder)
        modules = [str(path.relative_to(ROOT)) for path in (ROOT / "textassay").rglob("*.py")]
        compiled = [compiled_name(module) for module in modules]
        arms = {
            "pytest alone": [site],
            "checkout": [site, installed(folder / "checkout", ["_textassay.pth"])],
            "wheel, by uv": [site, installed(folder / "uv", modules)],
            "wheel, by pip": [site, installed(folder / "pip", modules + compiled)],
        }
        for paths in arms.values():
            collection(tests, paths)  # compiles the other modules
        rounds = [
            {arm: collection(tests, paths) for arm, paths in arms.items()}
            for _ in range(given.starts)
        ]
    report(rounds)


def report(rounds: list[dict[str, tuple[float, float]]]) -> None:
    """Print the time of each arm beyond pytest alone, and whether the target is met."""
    alone = [one["pytest alone"] for one in rounds]
    whole = statistics.median(session for session, _ in alone)
    print(f"pytest alone: {whole:.1f} ms of CPU time for a session that collects")
    worst = 0.0
    for arm in list(rounds[0])[1:]:
        these = [one[arm] for one in rounds]
        session = beyond([one for one, _ in these], [one for one, _ in alone])
        collected = beyond([one for _, one in these], [one for _, one in alone])
        worst = max(worst, collected[1])
        print(f"{arm}: collection {shown(collected)}, whole session {shown(session)}")
    verdict = "met" if worst <= TARGET_MS else "missed"
    print(f"collection {worst:+.2f} ms at most, target {TARGET_MS:g} ms: {verdict}")


def shown(quartiles: list[float]) -> str:
    """Return a median with its quartiles."""
    low, median, high = quartiles
    return f"{median:+.2f} ms [{low:+.2f}, {high:+.2f}]"


def beyond(these: list[float], those: list[float]) -> list[float]:
    """Return the quartiles of differences of neighbors, which noise hits alike."""
    return statistics.quantiles((a - b for a, b in zip(these, those, strict=True)), n=4)


def compiled_name(module: str) -> str:
    """Return the record that pip writes for a module that it compiled."""
    path = Path(module)
    return str(path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc")


def pytest_alone(folder: Path) -> Path:
    """Return a folder with pytest and its dependencies, so that no other plugin is found."""
    site = folder / "site"
    site.mkdir()
    for name in PYTEST:
        found = distribution(name)
        tops = {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}
        for top in tops:
            (site / top).symlink_to(Path(str(found.locate_file(top))))
    return site


def installed(place: Path, files: list[str]) -> Path:
    """Return a folder in which textassay is installed as a distribution of these files."""
    info = place / "textassay-0.dist-info"
    info.mkdir(parents=True)
    (place / "textassay").symlink_to(ROOT / "textassay")
    metadata = "Metadata-Version: 2.1\nName: textassay\nVersion: 0\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    entry = "[pytest11]\ntextassay = textassay.pytest_plugin\n"
    (info / "entry_points.txt").write_text(entry, encoding="utf-8")
    digest = "sha256=" + "A" * 43
    record = "".join(f"{file},{digest},1000\n" for file in files)
    (info / "RECORD").write_text(record, encoding="utf-8")
    return place


def collection(tests: Path, paths: list[Path]) -> tuple[float, float]:
    """Return milliseconds of a session and of its collection, with only these folders to import."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # compiled modules are kept, as they are for users
    known.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-S", "-c", COLLECT],
        cwd=tests,
        env={**known, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=True,
    )
    session, collected = done.stdout.split()[-2:]
    return float(session) * 1e3, float(collected) * 1e3


if __name__ == "__main__":
    main()
