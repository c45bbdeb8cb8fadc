"""What `--cluster` refuses: nothing is asked, and the message says what to do."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.cli.harness import textassay
from tests.cli.test_shards import flags
from textassay import cluster
from textassay.cluster.messages import Failed
from textassay.runtime.errors import (
    BudgetReached,
    ConfigurationError,
    FatalModelError,
    ModelError,
    ModelNotFound,
    TimedOut,
    UnknownName,
    parameter,
)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--cluster", "dask"), "--cluster must be 'ray' or 'ray://HOST:PORT'"),
        (("--cluster", "ray://"), "--cluster must be 'ray' or 'ray://HOST:PORT'"),
        (("--cluster", "ray", "--shard", "1/2"), "--cluster and --shard exclude each other"),
        (("--cluster", "ray", "--processes", "2"), "--workers N sets the number of workers"),
        (("--cluster", "ray", "--batch"), "--cluster and --batch exclude each other"),
        (("--cluster", "ray", "--workers", "0"), "--workers must be at least 1, not 0"),
        (("--cluster", "ray", "--workers", "9", "-c", "8"), "9 workers cannot divide --concurrency "
            "8"),
        (("--workers", "2"), "--workers goes with --cluster"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(server, data, run, more, says):
    """Exit 2 before Ray is looked for."""
    done = textassay(*flags(data, run, server, *more))
    assert done.code == 2
    assert says in " ".join(done.err.split())
    assert not run.exists()
    assert server.counters.requests == 0


def test_without_ray_the_extra_is_named(server, data, run, monkeypatch):
    """Exit 2 with the command that installs it."""
    monkeypatch.setitem(sys.modules, "ray", None)  # what Python does for a module that is missing
    done = textassay(*flags(data, run, server, "--cluster", "ray"))
    assert done.code == 2
    assert "pip install 'textassay[ray]'" in done.err
    assert not run.exists()


def test_a_cluster_that_is_not_there_is_said_at_once(server, data, run):
    """Exit 2 with the address, rather than Ray's half minute of attempts."""
    pytest.importorskip("ray.util.client", reason="Ray is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"ray://127.0.0.1:{free.getsockname()[1]}"
        done = textassay(*flags(data, run, server, "--cluster", address))
    assert done.code == 2
    assert f"the Ray cluster at {address} cannot be reached" in " ".join(done.err.split())
    assert not run.exists()


def test_a_dry_run_needs_no_cluster(server, data, run):
    """It only counts, on this machine."""
    done = textassay(*flags(data, run, server, "--cluster", "ray", "--dry-run"))
    assert done.code == 0, done.err
    assert "12" in done.out


@pytest.mark.asyncio
async def test_the_python_function_names_its_parameters(data, tmp_path):
    """In Python's words, not in those of the command line."""
    with pytest.raises(ConfigurationError, match="cluster= must be 'ray'"):
        await cluster.evaluate(data, cluster="dask", method="llm-score", model="direct/m", out="x")
    with pytest.raises(TypeError, match="did you mean 'workers'"):
        await cluster.evaluate(data, worker=2, method="llm-score", out=tmp_path)


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (UnknownName("method", "x", ("y",)), ConfigurationError),
        (ModelNotFound("no such model"), FatalModelError),
        (TimedOut("late"), ModelError),
        (BudgetReached("spent"), BudgetReached),
        (ZeroDivisionError("1/0"), RuntimeError),
    ],
)
def test_errors_of_workers_keep_their_family_and_words(error, family):
    """Whatever their constructors take, and with the notes they carry."""
    error.add_note("a note")
    again = Failed.of(error).error()
    assert type(again) is family
    assert str(again) == str(error)
    assert again.__notes__ == ["a note"]


def test_parameters_in_errors_of_workers_are_named_as_typed():
    """A marked parameter stays marked on its way."""
    again = Failed.of(ConfigurationError(f"give {parameter('price', '(1, 2)')}")).error()
    assert isinstance(again, ConfigurationError)
    assert again.typed(lambda name: f"--{name}") == "give --price (1, 2)"
