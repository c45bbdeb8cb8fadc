"""Runs the core tests on every other Python from 3.11 to 3.14 that this machine has.

Each gets an environment of its own, with the core and development requirements but without
llama.cpp and torch, whose tests skip. It takes 1.2 GB and is deleted after its tests, so that the
gate needs the disk space of one at a time. The core is what runs on every platform in a few
minutes: no benchmark data, no browser, no demo. Exits with 1 if the tests fail on any of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MINORS = (11, 12, 13, 14)
CORE = ("agents", "agreement", "evaluation", "methods", "prompts", "runtime", "test_public_api.py")
PROBE = "import sys, json; print(json.dumps([sys.version_info[:2], sys.prefix]))"


def find() -> dict[tuple[int, int], Path]:
    """Return one interpreter for each minor version that is not the running one."""
    found: dict[tuple[int, int], Path] = {}
    for candidate in _candidates():
        done = subprocess.run([candidate, "-c", PROBE], capture_output=True, text=True, check=False)
        if done.returncode == 0:  # a version manager's shim for a missing version fails here
            major, minor = json.loads(done.stdout)[0]
            if (major, minor) != sys.version_info[:2] and minor in MINORS:
                found.setdefault((major, minor), candidate)
    return dict(sorted(found.items()))


def _candidates() -> list[Path]:
    on_path = [shutil.which(f"python3.{minor}") for minor in MINORS]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    managed = [path for minor in MINORS for path in sorted(pyenv.glob(f"3.{minor}.*/bin/python"))]
    return [*managed, *(Path(path) for path in on_path if path)]


def environment(interpreter: Path, folder: Path) -> Path:
    """Return the Python of an environment with the core and development requirements."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-cache-dir",
    ]
    for lock in ("core", "dev"):
        requirements = ROOT / "requirements" / f"{lock}.lock"
        subprocess.run([*install, "--require-hashes", "-r", requirements], check=True, cwd=ROOT)
    subprocess.run([*install, "--no-deps", "--editable", ROOT], check=True)
    return python


def run_tests(python: Path) -> int:
    """Run the core tests, without benchmark data; return pytest's exit status."""
    command: list[str | Path] = [python, "-m", "pytest", "-n", "auto", "--dist", "loadgroup"]
    tests = [Path("tests") / part for part in CORE]
    without_data = {**os.environ, "TEXTASSAY_DATA": str(ROOT / ".venv" / "no-data")}
    return subprocess.run([*command, *tests], cwd=ROOT, env=without_data, check=False).returncode


def main() -> int:
    """Run the tests on each; return the exit status."""
    versions = find()
    if not versions:
        print("no other Python from 3.11 to 3.14 is installed here")
    failed = []
    for version, interpreter in versions.items():
        name = f"{version[0]}.{version[1]}"
        print(f"Python {name}: {interpreter}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            python = environment(interpreter, Path(folder) / "env")
            if run_tests(python):
                failed.append(name)
    if failed:
        print(f"the tests fail on Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
