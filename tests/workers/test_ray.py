"""`--cluster ray` on real Ray nodes, all on this machine: one is killed, one joins, then Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.harness import rows_of, served, textassay, verdicts, write_examples
from tests.cli.test_interruptions import MAIN, ROOT

EXAMPLES, UNIT, ASPECTS, IN_FLIGHT = 500, 200, 2, 8

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(sys.platform == "win32", reason="Ray has no clusters on Windows"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs, as in production, and two nodes."""
    pytest.importorskip("ray", reason="Ray is not installed (make cluster)")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Ray gives up on a process that takes 30 s to start, as it can on a busy machine; it waits
        # as long for one that has died, of which the command takes the next
        environment.setenv("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", "80")
        from ray.cluster_utils import Cluster

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": port}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.client_address = f"ray://127.0.0.1:{port}"
        try:
            for _ in range(2):
                cluster.add_node(num_cpus=1)
            yield cluster
        finally:
            cluster.shutdown()


def test_a_node_is_killed_and_one_joins(cluster, tmp_path):
    data, run = write_examples(tmp_path / "data.jsonl", EXAMPLES), tmp_path / "run"
    judging = ("--method", "llm-score", "--model", "direct/mock", "--aspects", "coherence,fluency")
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "RAY_USAGE_STATS_ENABLED": "0"}

    told = tmp_path / "stderr.txt"

    def wait_for(done: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        never = threading.Event()
        while not done():  # the timeout of the test is the limit
            assert process.poll() is None, told.read_text()
            never.wait(0.02)

    with served(hold_after=100) as server, told.open("w") as stderr:
        # no request may be asked again because the machine is busy
        limits = ("--concurrency", IN_FLIGHT, "--set", "timeout=3600")
        command = ("score", data, *judging, "--api-base", server.url, *limits, "--out", run)
        # a process of its own: Ray's nodes can be changed by the main thread only
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *map(str, command), "--cluster", "ray"],
            cwd=ROOT, env=environment, stderr=stderr, text=True,
        )  # fmt: skip
        # nothing more is answered until the nodes have changed and the driver knows of it
        wait_for(lambda: server.counters.requests > 100, process)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(num_cpus=1)
        wait_for(lambda: "is lost" in told.read_text(), process)
        server.options.hold_after = server.counters.requests + 200
        wait_for(lambda: server.counters.requests > server.options.hold_after, process)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 3, told.read_text()
        assert f"textassay resume {run}" in " ".join(told.read_text().split())
        kept = len(rows_of(run))
        assert kept == len(verdicts(run)) >= 100
        server.options.hold_after = 0
        textassay("resume", run, "--api-base", server.url).ok()
        assert len(rows_of(run)) == len(verdicts(run)) == EXAMPLES * ASPECTS
        # asked again: what the lost worker had in hand, and what was in flight at each stop
        assert server.counters.requests <= (EXAMPLES + UNIT) * ASPECTS + 2 * IN_FLIGHT
        asked, whole = server.counters.requests, tmp_path / "whole"
        command = (*judging, "--api-base", server.url, "--cache", run / "answers", "--out", whole)
        textassay("score", data, *command).ok()
        assert server.counters.requests == asked
        assert verdicts(whole) == verdicts(run)


def test_workers_hold_a_local_model(cluster, tmp_path, monkeypatch):
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed")
    from tests.gguf_fixture import write_model

    write_model(tmp_path / "tiny.gguf")
    data = write_examples(tmp_path / "data.jsonl", 12)
    monkeypatch.chdir(tmp_path)
    judging = ("--method", "gptscore", "--model", "llamacpp/tiny.gguf", "--aspects", "coherence")

    def score(out: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", MAIN, "score", str(data), *judging, *more, "--out", out]
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
        )

    done = score("elsewhere", "--cluster", cluster.client_address, "--set", "threads=1")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    here = score("here", "--set", "threads=1")
    assert here.returncode == 0, here.stderr
    assert verdicts(Path("elsewhere")) == verdicts(Path("here"))
    assert len(verdicts(Path("here"))) == 12
