"""How a local model is loaded: threads, digests of files, settings, memory, and the picks of the
sampler."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys

import pytest

from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.backends.llamacpp.library import (
    Weights,
    check_memory,
    free_gpu_bytes,
    gpu_in_sight,
    kv_bytes,
)
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
