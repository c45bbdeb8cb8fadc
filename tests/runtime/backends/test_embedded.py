"""The packaged model by its name, from the command line, in a copy of the package that holds a tiny
one."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import textassay
from tests.waiting import HANGS_AFTER
from textassay.runtime.backends.llamacpp.model import (
    EMBEDDED_CHECKSUM,
    EMBEDDED_FILE,
    EMBEDDED_FOLDER,
    embedded_model,
)
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import LocalSettings

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
)
RUN = "from textassay.cli import main; main()"
WITHOUT_LLAMA_CPP = f"import sys; sys.modules['llama_cpp'] = None; {RUN}"


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the package with a tiny model in the place of its own."""
    fixture = pytest.importorskip("tests.gguf_fixture")
    root = tmp_path_factory.mktemp("copy")
    package = Path(textassay.__file__).parent
    shutil.copytree(
        package, root / "textassay", ignore=shutil.ignore_patterns("__pycache__", "*.gguf*")
    )
    folder = root / "textassay" / "models"
    folder.mkdir(exist_ok=True)
    shape = fixture.Shape(
        width=32, layers=1, heads=2, hidden=32, context=512, dtype="f32", chat_template=None
    )
    content = fixture.write_model(folder / EMBEDDED_FILE, shape).path.read_bytes()
    (folder / EMBEDDED_CHECKSUM).write_text(
        f"{hashlib.sha256(content).hexdigest()}  {EMBEDDED_FILE}\n"
    )
    return root


def run(root: Path, *arguments: object, code: str = RUN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )


def score(root: Path, out: str, code: str = RUN) -> subprocess.CompletedProcess[str]:
    (root / "data.jsonl").write_text(
        json.dumps({"id": "x", "output": "It rained.", "source": "rain and wind " * 300})
    )
    flags = (
        "--task",
        "summarization",
        "--aspects",
        "fluency",
        "--method",
        "g-eval",
        "--progress",
        "none",
    )
    return run(root, "score", "data.jsonl", *flags, "--model", "embedded", "--out", out, code=code)


def test_it_scores_and_says_what_did_not_fit(copy):
    done = score(copy, "scored")
    assert done.returncode == 0, done.stderr
    [row] = map(json.loads, (copy / "scored" / "scores.jsonl").read_text().splitlines())
    assert (row["outcome"], row["how"]) == ("scored", "logprob")
    assert row["evidence"][0]["truncated_tokens"] > 100
    assert "model:embedded|" in row["signature"]
    manifest = json.loads((copy / "scored" / "manifest.json").read_text())
    assert manifest["method"]["profile"]["name"] == "embedded"
    assert manifest["models"][""]["identity"]["truncate"] == "source"
    resumed = run(copy, "resume", "scored")
    assert resumed.returncode == 0, resumed.stderr


def test_without_the_library_it_says_what_to_install(copy):
    done = score(copy, "uninstalled", code=WITHOUT_LLAMA_CPP)
    assert done.returncode == 2
    assert all(
        words in done.stderr
        for words in ("textassay[llamacpp]", "C++ compiler", "Models behind an API")
    )
    assert not (copy / "uninstalled").exists()


def test_the_doctor_examines_it(copy):
    done = run(copy, "doctor", "embedded")
    assert done.returncode == 0, done.stderr
    assert "512 tokens stated, and more are refused" in done.stdout


def test_a_file_that_is_missing_or_damaged(copy, tmp_path):
    folder = copy / "textassay" / "models"
    with pytest.raises(ConfigurationError, match=r"missing.*install textassay again.*API"):
        embedded_model(LocalSettings(), tmp_path)
    shutil.copy(folder / EMBEDDED_FILE, tmp_path)
    with pytest.raises(ConfigurationError, match=EMBEDDED_CHECKSUM):
        embedded_model(LocalSettings(), tmp_path)


@pytest.mark.asyncio
@pytest.mark.parametrize("damage", ["file", "checksum", "empty"])
async def test_a_damaged_file_is_refused(copy, tmp_path, damage):
    shutil.copytree(copy / "textassay" / "models", tmp_path, dirs_exist_ok=True)
    if damage == "file":
        content = bytearray((tmp_path / EMBEDDED_FILE).read_bytes())
        content[-100] ^= 1
        (tmp_path / EMBEDDED_FILE).write_bytes(content)
    else:
        (tmp_path / EMBEDDED_CHECKSUM).write_text("" if damage == "empty" else "0" * 64)
    with pytest.raises(ConfigurationError, match=r"damaged.*install it again"):
        await embedded_model(LocalSettings(), tmp_path).open()


def test_the_packaged_file_is_the_one_its_checksum_names():
    expected = (EMBEDDED_FOLDER / EMBEDDED_CHECKSUM).read_text().split()[0]
    assert hashlib.sha256((EMBEDDED_FOLDER / EMBEDDED_FILE).read_bytes()).hexdigest() == expected
    assert (EMBEDDED_FOLDER / EMBEDDED_FILE).stat().st_size <= 12 * 2**20
    assert (EMBEDDED_FOLDER / "README.md").is_file()
