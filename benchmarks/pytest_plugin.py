"""What the pytest plugin costs a session that does not use it.

    python -m benchmarks.pytest_plugin [--starts 25]

The CPU time of one collection of an empty test file, in processes of their own that take turns:
with pytest alone, with the plugin as a checkout installs it, and with it as a wheel does. The
median of what a start takes beyond its neighbor counts. The target is 5 ms at most.

At its start pytest reads the list of files of every distribution that has a plugin, whatever the
plugin does. A wheel lists each module, so that time is reported for itself.
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
began = time.process_time()
pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", "--rootdir", "."])
print(time.process_time() - began)
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
        arms = {
            "pytest alone": [site],
            "the plugin": [site, installed(folder / "checkout", ["_textassay.pth"])],
            "the plugin in a wheel": [site, installed(folder / "wheel", modules)],
        }
        for paths in arms.values():
            collection(tests, paths)  # compiles what is not compiled yet
        rounds = [
            {arm: collection(tests, paths) * 1e3 for arm, paths in arms.items()}
            for _ in range(given.starts)
        ]
    alone, plugin, wheel = ([one[arm] for one in rounds] for arm in arms)
    cost, listed = beyond(plugin, alone), beyond(wheel, plugin)
    verdict = "met" if cost <= TARGET_MS else "missed"
    print(f"pytest alone: {statistics.median(alone):.1f} ms of CPU time for a collection")
    print(f"the plugin: {cost:+.2f} ms, target {TARGET_MS:g} ms: {verdict}")
    print(f"pytest reads a wheel's list of {len(modules)} modules: {listed:+.2f} ms")


def beyond(these: list[float], those: list[float]) -> float:
    """Return the median difference of neighbors, which noise hits alike."""
    return statistics.median(a - b for a, b in zip(these, those, strict=True))


def pytest_alone(folder: Path) -> Path:
    """Return a folder with pytest and what it needs, so that no other plugin is found."""
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


def collection(tests: Path, paths: list[Path]) -> float:
    """Return the CPU time of one collection with these folders as all that can be imported."""
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
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
