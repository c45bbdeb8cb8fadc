"""How a local model is loaded: threads, digests, settings, memory; and the model of the package."""

from __future__ import annotations

import asyncio
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
from tests.gguf_fixture import Shape, write_model
from tests.waiting import HANGS_AFTER
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.backends.llamacpp.library import (
    Weights,
    check_memory,
    free_gpu_bytes,
    gpu_in_sight,
    kv_bytes,
)
from textassay.runtime.backends.llamacpp.model import (
    EMBEDDED_CHECKSUM,
    EMBEDDED_FILE,
    EMBEDDED_FOLDER,
    embedded_model,
)
from textassay.runtime.connected import connect
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import LocalSettings, Settings

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
)

SHOW_OPENMP = """
import os
from textassay.runtime.backends.llamacpp.library import library
library()
print("after", os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ({}, "GOMP_SPINCOUNT = '3000'"),
        ({"GOMP_SPINCOUNT": "77"}, "GOMP_SPINCOUNT = '77'"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "OMP_WAIT_POLICY = 'ACTIVE'"),
    ],
)
def test_threads_spin_briefly_unless_the_user_chose_otherwise(chosen, shown):
    """libgomp itself says what it read; the variable is gone afterwards unless the user had set
    it."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", SHOW_OPENMP],
        env={**plain, **chosen, "OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("llama.cpp was built without libgomp")
    assert shown in done.stderr
    assert f"after {chosen.get('GOMP_SPINCOUNT')}" in done.stdout


@pytest.mark.parametrize("names", [["nvidia3"], ["dxg"], ["kfd"], ["nvidia0", "nvidiactl"]])
def test_a_gpu_is_seen_in_containers_and_under_wsl(tmp_path, names):
    for name in names:
        (tmp_path / name).touch()
    assert gpu_in_sight(tmp_path)


def test_a_driver_without_a_device_is_no_gpu(tmp_path):
    for name in ("nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert not gpu_in_sight(tmp_path)


def test_settings_of_throughput_mode_reach_the_identity(tmp_path):
    """Whatever changes rounding is part of what a cached answer is filed under."""
    path = write_model(tmp_path / "m.gguf", Shape()).path

    def identity(**local):
        settings = Settings(no_cache=True, local=LocalSettings(n_ctx=256, **local))
        model = connect(f"llamacpp/{path}", settings=settings)

        async def opened():
            async with model:
                return dict(model.identity)

        return asyncio.run(opened())

    plain = identity()
    assert plain["flash_attention"] is False
    assert "batch" not in plain, "answers that were cached before the setting existed stay valid"
    fast = identity(mode="throughput", sequences=3, batch=64, flash_attention=True)
    assert (fast["mode"], fast["batch"], fast["flash_attention"]) == ("throughput3", 64, True)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"flash_attention": True}, "flash_attention needs mode='throughput'"),
        ({"sequences": 4}, "sequences needs mode='throughput'"),
        ({"mode": "throughput", "sequences": 65}, "2 to 64 sequences"),
        ({"batch": 8}, "batch must be 36 to 8192"),
    ],
)
def test_what_would_have_no_effect_or_break_a_promise_is_refused(options, shown):
    with pytest.raises(ConfigurationError, match=shown):
        LlamaCppModel("llamacpp/x", "x.gguf", **options)


def test_memory_is_checked_where_the_layers_are(tmp_path):
    """With all layers on the GPU its memory counts, with half of them both."""
    weights = Weights(
        write_model(tmp_path / "m.gguf", Shape()).path, gpu_layers=0, check_tensors=False
    )
    try:
        needs = kv_bytes(weights, n_ctx=1000, sequences=2, kv="f16")
        free = {"free": lambda: int(needs * 0.6), "free_on_gpu": lambda: int(needs * 0.6)}
        check_memory(
            weights, n_ctx=1000, sequences=2, kv="f16", gpu_layers=1, **free
        )  # one of two layers
        with pytest.raises(ConfigurationError, match=r"on the GPU needs .* fewer n_gpu_layers"):
            check_memory(weights, n_ctx=1000, sequences=2, kv="f16", gpu_layers=-1, **free)
        with pytest.raises(ConfigurationError, match="smaller n_ctx or fewer sequences"):
            check_memory(weights, n_ctx=1000, sequences=2, kv="f16", **free)
    finally:
        weights.close()


def test_without_a_gpu_no_gpu_memory_is_reported():
    found = free_gpu_bytes()
    assert found is None or found > 0


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
