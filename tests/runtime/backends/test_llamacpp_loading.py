"""How a local model is loaded: threads, digests of files, settings, memory, and the picks of the
sampler."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.backends.llamacpp import digest as digests
from textassay.runtime.backends.llamacpp.digest import file_digest
from textassay.runtime.backends.llamacpp.library import free_gpu_bytes, gpu_in_sight
from textassay.runtime.backends.llamacpp.memory import check_memory, kv_bytes
from textassay.runtime.backends.llamacpp.sampling import Sampler, nucleus
from textassay.runtime.backends.llamacpp.weights import Weights
from textassay.runtime.connect import connect
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


@pytest.fixture
def large(tmp_path):
    """A file, unchanged for an hour, and nothing known of it in memory."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and more")
    aged(path)
    digests._known.clear()
    return path


def aged(path, seconds=3600):
    then = path.stat().st_mtime_ns - seconds * 10**9
    os.utime(path, ns=(then, then))


def test_a_digest_is_remembered_on_disk_until_the_file_changes(large, tmp_path):
    """A later process does not read the file again; one byte, or another file under the name, is
    noticed."""
    store = tmp_path / "cache" / "digests.json"
    first = file_digest(large, store, min_bytes=4)
    digests._known.clear()
    known = store.read_text()
    store.write_text(known.replace(first, "0" * 64))
    assert file_digest(large, store, min_bytes=4) == "0" * 64, (
        "the remembered digest is used, the file not read"
    )
    digests._known.clear()
    before = large.stat()
    large.write_bytes(b"GGUF and MORE")
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = file_digest(large, store, min_bytes=4)
    assert changed not in (first, "0" * 64), "equal size and time of change, but another content"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"x": 1}', b"\xff\xfe", b'{"a": {"facts": 3}}'])
def test_a_damaged_file_of_digests_is_no_obstacle(large, tmp_path, content):
    store = tmp_path / "digests.json"
    store.write_bytes(content)
    found = file_digest(large, store, min_bytes=4)
    digests._known.clear()
    assert file_digest(large, store, min_bytes=4) == found


def test_an_unwritable_place_for_digests_is_no_obstacle(large, tmp_path):
    """The folder's place is taken by a file."""
    (tmp_path / "cache").write_text("not a folder")
    assert len(file_digest(large, tmp_path / "cache" / "digests.json", min_bytes=4)) == 64


def test_a_file_that_changed_just_now_is_not_remembered(large, tmp_path):
    """It could change again within the resolution of the file system's clock."""
    store = tmp_path / "digests.json"
    large.write_bytes(b"GGUF, fresh")
    file_digest(large, store, min_bytes=4)
    assert not store.exists()


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


@given(
    st.lists(st.floats(0, 100, width=32), min_size=1, max_size=2000).filter(any),
    st.floats(0.01, 0.999),
)
def test_the_nucleus_is_that_of_a_full_sort(weights, top_p):
    """Whatever the number of candidates looked at first, and however many are equal."""
    row = np.array(weights, np.float32)
    order = np.argsort(-row, kind="stable")
    held = np.cumsum(row[order], dtype=np.float64)
    due = top_p * float(row.sum(dtype=np.float64))
    expected = order[: max(1, int((held - row[order] < due).sum()))]
    assert nucleus(row, top_p).tolist() == expected.tolist()


@pytest.mark.parametrize("top_p", [1.0, 0.6])
def test_picks_follow_the_probabilities(top_p):
    """Frequencies of 20,000 picks against softmax, cut to the nucleus; no pick outside of it."""
    row = np.log(np.array([0.05, 0.4, 0.25, 0.2, 0.1], np.float32))
    expected = (
        np.array([0.05, 0.4, 0.25, 0.2, 0.1]) if top_p == 1 else np.array([0, 0.4, 0.25, 0, 0])
    )
    sampler = Sampler(temperature=1.0, top_p=top_p, seed=(3, 0), grammar=None)
    counts = np.bincount([sampler.pick(row) for _ in range(20_000)], minlength=5)
    assert counts / 20_000 == pytest.approx(expected / expected.sum(), abs=0.015)


def test_a_tiny_temperature_picks_the_best():
    row = np.array([1.0, 3.0, 2.0], np.float32)
    for temperature in (1e-3, 1e-30, 1e-300):
        sampler = Sampler(temperature=temperature, top_p=0.9, seed=(1, 0), grammar=None)
        assert {sampler.pick(row) for _ in range(20)} == {1}
