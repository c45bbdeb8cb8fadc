"""What `--cluster` and `--processes` refuse; the files of `examples/deploy` belong together."""

from __future__ import annotations

import pickle
import re
import socket
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.harness import textassay
from tests.cli.test_shards import flags
from textassay import ScriptedModel, evaluate, evaluate_sync
from textassay.evaluation.request import RunRequest
from textassay.methods import build
from textassay.runtime.errors import (
    BudgetReached,
    ConfigurationError,
    RateLimited,
    ServerFailed,
    StorageError,
    UnknownName,
    UnknownParameter,
)
from textassay.runtime.settings import Settings
from textassay.tools.surface import Rouge
from textassay.workers.driver import Cluster, most_workers
from textassay.workers.ray import CONNECT_ATTEMPTS, ray_workers


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--cluster", "dask"), "--cluster must be 'ray' or 'ray://HOST:PORT'"),
        (("--cluster", "ray://"), "--cluster must be 'ray' or 'ray://HOST:PORT'"),
        (("--cluster", "ray", "--shard", "1/2"), "--cluster and --shard exclude each other"),
        (("--cluster", "ray", "--processes", "2"), "--workers N sets the number of workers"),
        (("--cluster", "ray", "--batch"), "--cluster and --batch exclude each other"),
        (("--cluster", "ray", "--workers", "0"), "--workers must be at least 1, not 0"),
        (("--cluster", "ray", "--workers", "9", "-c", "8"), "9 workers cannot respect --concurrency"
            " 8"),
        (("--workers", "2"), "--workers goes with --cluster"),
        (("--processes", "2", "--shard", "1/2"), "--shard and --processes exclude each other"),
        (("--processes", "2", "--batch"), "--processes and --batch exclude each other"),
        (("--processes", "2", "--set", "stepz=none"), "unknown setting 'stepz'"),
        (("--processes", "2", "--task", "poetry"), "unknown task 'poetry'"),
    ],
)  # fmt: skip
def test_arguments_that_exclude_each_other_are_refused(server, data, run, more, says):
    """Once, also what each process would refuse."""
    done = textassay(*flags(data, run, server, *more)).ends(2, says)
    made = (run / "manifest.json").exists()
    assert (done.messages.count(says), made, server.counters.requests) == (1, False, 0)


def test_without_ray_the_extra_is_named(server, data, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # what Python does for a module that is missing
    textassay(*flags(data, run, server, "--cluster", "ray")).ends(2, "pip install 'textassay[ray]'")
    assert not run.exists()


def test_a_cluster_that_is_not_there_is_said_at_once(server, data, run):
    pytest.importorskip("ray.util.client", reason="Ray is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"ray://127.0.0.1:{free.getsockname()[1]}"
        done = textassay(*flags(data, run, server, "--cluster", address))
    assert done.code == 2
    assert f"the Ray cluster at {address} cannot be reached" in " ".join(done.err.split())
    assert not run.exists()


NOT_STARTED = """Initialization failure from server:
Traceback (most recent call last):
  File "proxier.py", line 772, in Datapath
RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for details.

"""
"""As Ray 2.60 says it."""


class Unlucky(SimpleNamespace):
    """Ray on whose head the process for a client dies so many times."""

    def __init__(self, deaths: int) -> None:
        self.deaths, self.exceptions = deaths, SimpleNamespace(RayError=ZeroDivisionError)

    def init(self, **_: object) -> None:
        self.deaths -= 1
        if self.deaths >= 0:
            raise ConnectionAbortedError(NOT_STARTED)

    def is_initialized(self) -> bool:
        return False

    def remote(self, **_: object) -> object:
        return lambda actor: actor

    def shutdown(self) -> None:
        """Nothing was started."""


@pytest.mark.parametrize("deaths", [CONNECT_ATTEMPTS - 1, CONNECT_ATTEMPTS])
async def test_a_head_that_could_not_start_a_process_is_asked_again(monkeypatch, deaths):
    ray = Unlucky(deaths)
    for name in ("ray", "ray.util", "ray.util.client"):
        monkeypatch.setitem(sys.modules, name, ray)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        connected = ray_workers(address, workers=None, local=False, threads=None)
        if deaths < CONNECT_ATTEMPTS:
            async with connected:
                assert ray.deaths == -1
            return
        with pytest.raises(ConfigurationError, match="cannot be used: RuntimeError: Starting Ray"):
            await connected.__aenter__()


def test_a_dry_run_needs_no_cluster(server, data, run):
    done = textassay(*flags(data, run, server, "--cluster", "ray", "--dry-run")).ok()
    assert "12" in done.out


JUDGED: dict[str, Any] = {"method": "llm-score", "model": "direct/m"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"cluster": "dask", "out": "x"}, "cluster= must be 'ray'"),
        ({"cluster": "ray", "workers": 0, "out": "x"}, "workers= must be at least 1, not 0"),
        ({"cluster": "ray"}, "cluster= needs out="),
        ({"cluster": "ray", "resume": True}, "resume= continues the run in out="),
        ({"workers": 2}, "workers= needs cluster="),
        ({"cluster": "ray", "model": ScriptedModel([]), "out": "x"},
            "model= must be given by name"),
        ({"cluster": "ray", "tools": [Rouge("rouge1")], "out": "x"},
            "tools= must be given by name"),
        ({"cluster": "ray", "out": "x", "settings": Settings(batch=True)},
            "cluster= and batch= exclude each other"),
        ({"cluster": "ray", "workers": 9, "out": "x", "settings": Settings(concurrency=8)},
            "9 workers cannot respect concurrency= 8"),
    ],
)  # fmt: skip
async def test_evaluate_refuses_arguments_that_do_not_fit_a_cluster(
    data, tmp_path, monkeypatch, more, says
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        await evaluate(data, **{**JUDGED, **more})
    assert not (tmp_path / "x").exists()


async def test_a_method_object_cannot_be_sent_to_a_cluster(data, tmp_path):
    method = build("llm-score", ScriptedModel([]), task="summarization")
    with pytest.raises(ConfigurationError, match="method= must be given by name if cluster="):
        await evaluate(data, method=method, cluster="ray", out=tmp_path / "run")


def test_evaluate_on_a_cluster_suggests_the_argument_that_was_meant(data, tmp_path):
    with pytest.raises(TypeError, match="did you mean 'workers'"):
        evaluate_sync(data, worker=2, cluster="ray", method="llm-score", out=tmp_path)


class FileBusy(StorageError, OSError):
    """An error of a user's store, which no constructor of `Exception` makes."""


@pytest.mark.parametrize(
    "error",
    [
        UnknownName("method", "x", ("y",)),
        UnknownParameter("evaluate", "worker", ("workers",)),
        RateLimited("slow down", retry_after=3.0),
        ServerFailed("down", status=503),
        BudgetReached("spent"),
        FileBusy("in use"),
    ],
)
def test_errors_of_workers_reach_the_driver_as_they_are(error):
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_local_model_beside_a_server_lifts_no_limit():
    nine, settings = Cluster(None, count=9), Settings(concurrency=8)
    request = RunRequest(method="panel", models={"b": "llamacpp/b.gguf"}, settings=settings)
    assert most_workers(nine, request, 1000) == 9
    request = request.model_copy(update={"models": {"": "openai/x", "b": "llamacpp/b.gguf"}})
    with pytest.raises(ConfigurationError, match="9 workers cannot respect"):
        most_workers(nine, request, 1000)


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "deploy"


def test_every_object_is_complete_and_refers_to_others_that_are_there():
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with Ray")
    objects = list(yaml.safe_load_all((FOLDER / "kubernetes-job.yaml").read_text()))
    kinds = [each["kind"] for each in objects]
    assert kinds == [
        "Service", "NetworkPolicy", "PersistentVolumeClaim", "Deployment", "Deployment", "Job",
    ]  # fmt: skip
    service, _, claim, head, worker, job = objects
    for each in (head, worker):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == head["spec"]["template"]["metadata"]["labels"]
    name, ports = service["metadata"]["name"], {port["port"] for port in service["spec"]["ports"]}
    assert f"--address={name}:6379" in worker["spec"]["template"]["spec"]["containers"][0]["args"]
    pod = job["spec"]["template"]["spec"]
    [script] = pod["containers"][0]["args"]
    assert f"ray://{name}:10001" in script
    assert ports == {6379, 10001}
    for each in (head, worker, job):
        [container] = each["spec"]["template"]["spec"]["containers"]
        assert {"secretRef": {"name": "textassay-ray"}} in container["envFrom"]
    assert pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    cluster = yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text())
    image = pod["containers"][0]["image"]
    assert cluster["docker"]["image"] == image
    assert image in (FOLDER / "Dockerfile").read_text()


def test_ray_accepts_the_cluster_file():
    pytest.importorskip("ray", reason="Ray is not installed")
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text()))
    validate_config(config)
    assert config["max_workers"] == len(config["provider"]["worker_ips"])


def test_the_image_is_built_of_what_it_needs_alone():
    lines = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    taken = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in taken)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyproject.toml", "textassay", "LICENSE", project["readme"]} <= taken
    [lock] = re.findall(r"-r (\S+)", (FOLDER / "Dockerfile").read_text())
    assert lock in taken


def test_the_flags_of_textassay_exist():
    helps = {name: textassay(name, "--help").out for name in ("score", "resume")}
    for path in FOLDER.iterdir():
        for line in path.read_text().splitlines():
            for name, text in helps.items():
                if f"textassay {name} " in line:
                    for flag in re.findall(r"--[a-z-]+", line):
                        assert flag in text, (path.name, flag)
    assert "--progress" in helps["resume"]
    assert "--cluster" in helps["resume"]
