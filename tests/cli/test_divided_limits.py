"""Limits of `--processes`: what all processes send together keeps to each, wherever it was set."""

from __future__ import annotations

import pytest

from tests.cli.test_shards import score
from textassay.cli.divided_limits import divided
from textassay.cli.processes import orders_to_resume
from textassay.evaluation.shards import Shard
from textassay.runtime.settings import OneOfEndpoints, Settings

HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
LIMITED = Settings(
    rpm=600,
    max_cost=6,
    endpoints=(OneOfEndpoints(api_base=HERE, rpm=90, concurrency=5), {"api_base": THERE}),
    roles={
        "scorer": {"tpm": 9000, "endpoints": [{"api_base": THERE, "tpm": 300}]},
        "planner": {"concurrency": 4},
    },
)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_limits_of_roles_and_endpoints_are_divided_among_processes(count):
    """What all processes send together keeps to each limit, wherever it was set."""
    limits = []
    for shard in (Shard(number, count) for number in range(1, count + 1)):
        as_sent = divided(LIMITED, shard).model_dump(mode="json")
        own = Settings(**as_sent)
        scorer, planner = own.for_role("scorer"), own.for_role("planner")
        first, second = (own.at(each) for each in own.endpoints)
        third = scorer.at(scorer.endpoints[0])
        assert min(each.concurrency for each in (own, first, second, scorer, planner)) >= 1
        # what is not set is as for the model
        assert second.concurrency == scorer.concurrency == third.concurrency == own.concurrency
        assert own.rpm == second.rpm == scorer.rpm == planner.rpm
        limits.append(
            (
                own.max_cost,
                own.concurrency,
                own.rpm,
                first.concurrency,
                first.rpm,
                scorer.tpm,
                third.tpm,
                planner.concurrency,
            )
        )
    assert [sum(each) for each in zip(*limits, strict=True)] == pytest.approx(
        [6, 64, 600, 5, 90, 9000, 300, 4]
    )
    shared = LIMITED.model_copy(update={"limits": "redis://127.0.0.1:1/0", "max_cost": None})
    assert divided(shared, Shard(1, count)) == shared


def test_limits_that_resume_is_given_are_divided(server, data, run, tmp_path):
    """Those of the tables as well; what the manifests record is divided already."""
    file = tmp_path / "c.toml"
    file.write_text("rpm = 6000\n[models.planner]\nrpm = 600")
    done = score(data, run, server, "--processes", "2", "--config", file, "-c", "9")
    assert done.code == 0, done.err
    as_recorded = orders_to_resume(run, {})
    endpoint = {"api_base": server.url, "rpm": 1200, "concurrency": 7}
    given = {"tpm": 800, "roles": {"scorer": {"endpoints": [endpoint]}}}
    as_given = orders_to_resume(run, given)
    for number, of_nine, of_seven in ((1, 4, 3), (2, 5, 4)):
        recorded = as_recorded[Shard(number, 2)].settings
        assert (recorded.rpm, recorded.for_role("planner").rpm) == (3000, 300)
        own = as_given[Shard(number, 2)].settings.for_role("scorer")
        assert (own.rpm, own.tpm, own.concurrency) == (3000, 400, of_nine)
        assert (own.endpoints[0].rpm, own.endpoints[0].concurrency) == (600, of_seven)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("[models.scorer]\nconcurrency = 2", "[models.scorer] concurrency 2"),
        (
            '[[models.scorer.endpoints]]\napi_base = "http://127.0.0.1:1/v1"\nconcurrency = 2',
            "[[models.scorer.endpoints]] (1) concurrency 2",
        ),
        ("concurrency = 2", "--concurrency 2"),
    ],
)
def test_more_processes_than_calls_in_flight_are_refused(table, name, server, data, run, tmp_path):
    """Wherever the limit was set; each process has a call in flight at least."""
    (tmp_path / "c.toml").write_text(table)
    done = score(data, run, server, "--processes", "3", "--config", tmp_path / "c.toml")
    assert done.code == 2
    assert f"3 processes cannot keep to {name}," in done.err
    assert not run.exists()
