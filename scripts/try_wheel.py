"""Builds wheel and sdist, installs the wheel alone in a fresh environment, and uses it there.

Everything happens in a temporary folder outside the checkout, so that a file that the wheel lacks
is not found by accident: `textassay demo`, and a small run with `textassay score`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = "Scripts" if os.name == "nt" else "bin"
EXAMPLES = [
    {"id": "a", "source": "The bridge opens in May.", "output": "The bridge opens in May."},
    {"id": "b", "source": "The bridge opens in May.", "output": "A dog barked."},
]


def main() -> None:
    """Build, install, run; any failure ends the process with its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        build: list[str | Path] = [sys.executable, "-m", "build", "--outdir", place / "dist"]
        run([*build, ROOT], place)
        wheel = next((place / "dist").glob("*.whl"))
        sdist = next((place / "dist").glob("*.tar.gz"))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {sdist.name}", flush=True)
        run([sys.executable, "-m", "venv", place / "env"], place)
        python = place / "env" / BIN / "python"
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-cache-dir",
        ]
        for lock in ("core", "llamacpp"):
            requirements = ROOT / "requirements" / f"{lock}.lock"
            run([*install, "--require-hashes", "-r", requirements], ROOT)
        embedded = ROOT / "requirements" / "embedded.lock"
        run([*install, "--require-hashes", "--no-deps", "-r", embedded], ROOT)
        run([*install, "--no-deps", wheel], place)
        use(place / "env" / BIN / "textassay", place)


def use(textassay: Path, place: Path) -> None:
    """Run the demo and a small evaluation with the installed command."""
    run([textassay, "demo", "--out", place / "demo", "--progress", "none"], place, quiet=True)
    data = place / "data.jsonl"
    data.write_text("".join(json.dumps(example) + "\n" for example in EXAMPLES), encoding="utf-8")
    score: list[str | Path] = [
        textassay,
        "score",
        data,
        "--method",
        "gptscore",
        "--model",
        "embedded",
    ]
    run([*score, "--task", "summarization", "--out", place / "run", "--progress", "none"], place)
    summary = json.loads((place / "run" / "summary.json").read_text(encoding="utf-8"))
    if summary["outcomes"]["scored"] != 4 * len(EXAMPLES):
        sys.exit(f"the wheel scored {summary['outcomes']}, not {4 * len(EXAMPLES)} of each")
    print("the wheel works outside the checkout")


def run(command: list[str | Path], folder: Path, *, quiet: bool = False) -> None:
    """Run a command in `folder`; exit with its status if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    output = subprocess.DEVNULL if quiet else None
    done = subprocess.run(command, cwd=folder, env=environment, stdout=output, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}")


if __name__ == "__main__":
    main()
