"""`--cluster ray` on real Ray nodes, all on this machine: one is killed, one joins, then Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
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
        # Ray gives up on a process that takes 30 s to start, as it can on a busy machine
        environment.setenv("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", "250")
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
    """Each score once, at most the lost worker's unit is asked again, and Ctrl-C can be resumed."""
    data, run = write_examples(tmp_path / "data.jsonl", EXAMPLES), tmp_path / "run"
    judging = ("--method", "llm-score", "--model", "direct/mock", "--aspects", "coherence,fluency")
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "RAY_USAGE_STATS_ENABLED": "0"}

    def started(*arguments: object) -> subprocess.Popen[str]:
        # a process of its own: Ray's nodes can be changed by the main thread only
        return subprocess.Popen(
            [sys.executable, "-c", MAIN, *map(str, arguments), "--cluster", "ray"],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_for(requests: int, process: subprocess.Popen[str]) -> None:
        never = threading.Event()
        while server.counters.requests < requests:  # the timeout of the test is the limit
            assert process.poll() is None, process.communicate()
            never.wait(0.02)

    with served(latency_ms=10) as server:
        flags = (
            *judging,
            "--api-base",
            server.url,
            "--concurrency",
            IN_FLIGHT,
            "--set",
            "timeout=5",
        )
        process = started("score", data, *flags, "--out", run)
        wait_for(100, process)
        # answers take long until the nodes have changed, so that the run cannot end before
        server.options.latency_ms = 2000
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(num_cpus=1)
        server.options.latency_ms = 10
        wait_for(server.counters.requests + 100, process)
        server.options.latency_ms = 60_000
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
        assert process.returncode == 3, told
        assert f"textassay resume {run}" in " ".join(told.split())
        assert "is lost" in told
        kept = len(rows_of(run))
        assert kept == len(verdicts(run)) >= 100
        server.options.latency_ms = 0
        done = textassay("resume", run, "--api-base", server.url)  # on this machine, as any run
        assert done.code == 0, done.err
        assert len(rows_of(run)) == len(verdicts(run)) == EXAMPLES * ASPECTS
        # asked again: what the lost worker had in hand, and what was in flight at each stop
        assert server.counters.requests <= (EXAMPLES + UNIT) * ASPECTS + 2 * IN_FLIGHT
        asked, whole = server.counters.requests, tmp_path / "whole"
        command = (*judging, "--api-base", server.url, "--cache", run / "answers", "--out", whole)
        done = textassay("score", data, *command)
        assert done.code == 0, done.err
        assert server.counters.requests == asked
        assert verdicts(whole) == verdicts(run)


def test_workers_hold_a_local_model(cluster, tmp_path, monkeypatch):
    """Through Ray Client, and by a path relative to this process's folder, not to the nodes'."""
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
