"""The demo runs offline and says that its judge is a script."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_demo_scores_the_bundled_examples(tmp_path: Path) -> None:
    """It prints scores and agreement, and leaves a run that is whole."""
    out = tmp_path / "run"
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "SCRIPTED" in done.stdout
    assert "Agreement with the ratings that we gave" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["outcomes"] == {"scored": 80, "abstained": 0, "invalid": 0, "error": 0}
