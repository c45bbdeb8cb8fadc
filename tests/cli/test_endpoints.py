"""One model behind several endpoints: divided by weight, rested when one fails, one identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import rows_of, served, textassay, write_examples
from textassay.runtime.settings import OneOfEndpoints, Settings
from textassay.runtime.storage.run_files import read_manifest

SECRET = "sk-a-very-secret-key"


def config(path: Path, *endpoints: str, **more: object) -> Path:
    """Write a file of --config with these `[[endpoints]]`."""
    settings = "".join(f"{name} = {value}\n" for name, value in more.items())
    tables = "".join(f"[[models.scorer.endpoints]]\n{table}\n" for table in endpoints)
    path.write_text(f'{settings}[models.scorer]\nmodel = "direct/judge"\n{tables}')
    return path


def scored(data: Path, file: Path, out: Path, *more: object, says: str = "") -> int:
    method = ("--method", "llm-score", "--aspects", "fluency")
    done = textassay("score", data, *method, "--config", file, "--out", out, *more)
    assert "Traceback" not in done.err
    assert says in done.err
    return done.code


def test_an_endpoint_takes_what_it_lacks_from_its_model() -> None:
    """Also if the settings went through a role, or as JSON to another process."""
    endpoint = OneOfEndpoints(api_base="http://127.0.0.1:1/v1", rpm=5.0)
    settings = Settings(headers={"X-Team": "judges"}, concurrency=7, endpoints=(endpoint,))
    for each in (
        settings,
        settings.for_role("scorer"),
        Settings.model_validate_json(settings.model_dump_json()),
    ):
        own = each.at(each.endpoints[0])
        assert (own.concurrency, own.rpm, own.headers) == (7, 5.0, {"X-Team": "judges"})


def test_an_endpoint_that_says_that_it_has_no_key_and_no_headers_gets_none() -> None:
    """Its model's key and secret headers are for other addresses."""
    endpoint = {"api_base": "http://127.0.0.1:1/v1", "api_key_env": None, "headers": {}}
    settings = Settings(
        api_key_env="JUDGE_KEY",
        headers={"X-Api-Key": "${JUDGE_KEY}"},
        endpoints=(OneOfEndpoints(**endpoint),),
        roles={"planner": {"endpoints": [endpoint]}},
    )
    for each in (
        settings,
        settings.for_role("scorer"),
        settings.for_role("planner"),
        Settings.model_validate_json(settings.model_dump_json()),
        Settings.model_validate_json(settings.model_dump_json()).for_role("planner"),
    ):
        own = each.at(each.endpoints[0])
        assert (own.api_key_env, own.headers) == (None, {})


def test_requests_are_divided_by_weight_and_a_failing_endpoint_is_rested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    data = write_examples(tmp_path / "data.jsonl", 40)
    with (
        served(require_key=SECRET, latency_ms=5) as heavy,
        served(latency_ms=5) as light,
        served(p500=1.0) as broken,
    ):
        file = config(
            tmp_path / "judge.toml",
            f'api_base = "{heavy.url}"\napi_key_env = "JUDGE_KEY"\nweight = 3',
            f'api_base = "{light.url}"',
            f'api_base = "{broken.url}"\nweight = 4',
            concurrency=1,
        )
        assert scored(data, file, tmp_path / "run") == 0
        assert heavy.counters.ok + light.counters.ok == 40
        assert heavy.counters.ok == pytest.approx(30, abs=2)
        assert 1 <= broken.counters.requests <= 8, "it was asked once more after a rest at most"
        assert heavy.counters.refused == 0
    written = "".join(
        path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*") if path.is_file()
    )
    assert SECRET not in written
    recorded = read_manifest(tmp_path / "run")["settings"]["roles"]["scorer"]["endpoints"]
    assert [place["weight"] for place in recorded] == [3, 1, 4]
    assert "JUDGE_KEY" not in str(recorded)


def test_answers_and_signatures_are_one_whatever_the_endpoints(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 6)
    with served() as one, served() as other:
        first = config(tmp_path / "one.toml", f'api_base = "{one.url}"')
        both = config(tmp_path / "two.toml", *(f'api_base = "{s.url}"' for s in (other, one)))
        cache = ("--cache", tmp_path / "cache")
        assert scored(data, first, tmp_path / "a", *cache) == 0
        assert scored(data, both, tmp_path / "b", *cache) == 0
        assert one.counters.requests + other.counters.requests == 6
    a, b = rows_of(tmp_path / "a"), rows_of(tmp_path / "b")
    assert {row["signature"] for row in a} == {row["signature"] for row in b}
    assert all(row["usage"]["cached_calls"] == 1 for row in b)


def test_a_wrong_key_at_one_endpoint_does_not_stop_the_run(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 6)
    with served(require_key="another") as closed, served() as opened:
        file = config(tmp_path / "judge.toml", *(f'api_base = "{s.url}"' for s in (closed, opened)))
        says = "warning: endpoint 1 failed with"
        assert scored(data, file, tmp_path / "run", says=says) == 0
        assert opened.counters.ok == 6


def test_resume_takes_no_endpoints_from_a_run_folder(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 4)
    with served(p500=1.0) as one, served(p500=1.0) as other:
        endpoints = [f'api_base = "{s.url}"' for s in (one, other)]
        file = config(tmp_path / "judge.toml", *endpoints, set="{attempts = 1}")
        assert scored(data, file, tmp_path / "run") in (1, 3)
    with served() as mended:
        refused = textassay("resume", tmp_path / "run")
        assert refused.code == 2
        assert "--config" in refused.err
        file = config(tmp_path / "judge.toml", f'api_base = "{mended.url}"')
        assert textassay("resume", tmp_path / "run", "--config", file).code == 0


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('api_bse = "http://127.0.0.1:9/v1"', "endpoint 2: unknown setting 'api_bse'; known: api_"),
        ('api_base = "http://127.0.0.1:9/v1"\nweight = 0', "endpoint 2: weight: "),
        ("rpm = 60", "endpoint 2: model 'direct/judge' needs --api-base"),
    ],
)
@pytest.mark.parametrize("role", ["scorer", None])
def test_a_mistake_in_an_endpoint_is_named_by_its_place(
    tmp_path: Path, table: str, says: str, role: str | None
) -> None:
    data = write_examples(tmp_path / "data.jsonl", 2)
    file = config(tmp_path / "judge.toml", 'api_base = "http://127.0.0.1:9/v1"', table)
    if role is None:
        text = file.read_text().replace("[[models.scorer.endpoints]]", "[[endpoints]]")
        file.write_text(text.replace("[models.scorer]\n", ""))
    elif "needs" not in says:
        says = f"error: models.scorer: {says}"
    assert scored(data, file, tmp_path / "run", says=says) == 2
    assert not (tmp_path / "run").exists()


def test_an_address_on_the_command_line_is_not_ignored_for_endpoints(tmp_path: Path) -> None:
    data, file = write_examples(tmp_path / "data.jsonl", 2), tmp_path / "judge.toml"
    file.write_text('model = "direct/judge"\n[[endpoints]]\napi_base = "http://127.0.0.1:9/v1"\n')
    says = f"--api-base would not be used beside the [[endpoints]] of {file}"
    more = ("--api-base", "http://127.0.0.1:10/v1")
    assert scored(data, file, tmp_path / "run", *more, says=says) == 2


def test_settings_of_a_role_hold_for_the_general_model(tmp_path: Path) -> None:
    """Also in a run that was begun without them, and under another model on the command line."""
    data, file = write_examples(tmp_path / "data.jsonl", 4), tmp_path / "judge.toml"
    with served() as general, served() as own, served() as later:
        file.write_text(
            f'model = "direct/judge"\napi_base = "{general.url}"\n'
            f'[models.scorer]\napi_base = "{own.url}"\n'
        )
        assert scored(data, file, tmp_path / "run") == 0
        assert scored(data, file, tmp_path / "other", "--model", "direct/other") == 0
        assert (general.counters.requests, own.counters.requests) == (0, 8)
        file.write_text(f'model = "direct/judge"\napi_base = "{later.url}"\n')
        assert scored(data, file, tmp_path / "later") == 0
        scores = tmp_path / "later" / "scores.jsonl"
        scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:3]))
        file.write_text(f'[models.scorer]\napi_base = "{later.url}"\ntimeout = 50\n')
        done = textassay("resume", tmp_path / "later", "--config", file)
        assert done.code == 0, done.err
        assert later.counters.requests == 4, "its answer is in the cache"


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        ('judge]\nmodel = "direct/judge"', ("judge",)),
        ('judge]\nmodel = "direct/judge"', ("scorer=judge",)),
        ('"direct/judge"]', ("direct/judge",)),
    ],
)
def test_a_model_is_asked_by_the_name_of_its_table(
    tmp_path: Path, table: str, asked: tuple[str, ...]
) -> None:
    """Its endpoints are those of the table, which is no role; signature and cache are the model's
    own."""
    data, file = write_examples(tmp_path / "data.jsonl", 8), tmp_path / "judge.toml"
    name = table.partition("]")[0]
    with served() as first, served() as second:
        endpoints = "".join(
            f'[[models.{name}.endpoints]]\napi_base = "{each.url}"\n' for each in (first, second)
        )
        file.write_text(f"[models.{table}\nconcurrency = 2\n{endpoints}")
        flags = [flag for each in asked for flag in ("--model", each)]
        assert scored(data, file, tmp_path / "run", *flags) == 0
        # the first request goes alone, so the halves may differ by it
        shares = first.counters.requests, second.counters.requests
        assert sum(shares) == 8
        assert min(shares) >= 3
        assert {row["signature"].split("|")[1] for row in rows_of(tmp_path / "run")} == {
            "model:direct/judge"
        }
        done = textassay("resume", tmp_path / "run", "--config", file)
        assert done.code == 0, done.err


def test_settings_of_a_role_that_the_method_does_not_have_are_warned_of(tmp_path: Path) -> None:
    data, file = write_examples(tmp_path / "data.jsonl", 2), tmp_path / "judge.toml"
    with served() as server:
        file.write_text(
            f'model = "direct/judge"\napi_base = "{server.url}"\n[models.judge]\nrpm = 3\n'
        )
        says = "warning: role 'judge' is not used; the roles of llm-score: scorer"
        assert scored(data, file, tmp_path / "run", says=says) == 0


def test_a_password_of_redis_is_not_repeated(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 2)
    for flag in ("--limits", "--cache"):
        done = textassay(
            "score", data, "--method", "llm-score", "--model", "direct/judge", "--api-base",
            "http://127.0.0.1:9/v1", "--out", tmp_path / "run", flag, f"redis://:{SECRET}@host:1/0",
        )  # fmt: skip
        assert done.code == 2
        assert f"error: {flag}: an address of Redis must not contain a password" in done.err
        assert SECRET not in done.err
