"""The adapters of providers, against servers shaped like the references of their APIs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.batch_server import serve_batches
from tests.pictures import png, png_uri
from tests.runtime.batches import test_batch
from tests.runtime.batches.provider_server import KEY, Providers, serve_providers
from tests.runtime.batches.test_batch import asked
from textassay.cli.commands.doctor import examine_batches
from textassay.runtime.api import connect
from textassay.runtime.backends import http_errors
from textassay.runtime.backends.endpoint import PROVIDERS as KNOWN
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.batches.dialect import BatchRecord
from textassay.runtime.batches.model import BatchesSubmitted, batch_address, open_dialect
from textassay.runtime.batches.openai import result_in
from textassay.runtime.errors import (
    ConfigurationError,
    NothingListening,
    Refusal,
    RequestRefused,
)
from textassay.runtime.images import ImageReader
from textassay.runtime.model import Request, Response

PROVIDERS = {
    "anthropic/m": "/v1",
    "gemini/m": "/v1beta",
    "together_ai/m": "/together/v1",
    "groq/m": "/groq/openai/v1",
}


def provider_of(name: str, server: Providers, endpoint: Endpoint = Endpoint()) -> Any:  # noqa: B008
    return open_dialect(name, api_base=server.url + PROVIDERS[name], api_key=KEY, endpoint=endpoint)


async def session(
    name: str, folder: Path, server: Providers, requests: list[Request],
    endpoint: Endpoint = Endpoint(), **how: Any,  # noqa: B008
) -> list[Any]:  # fmt: skip
    """Ask all in one process's life."""
    dialect = provider_of(name, server, endpoint)
    return await test_batch.session(folder, server, requests, name=name, dialect=dialect, **how)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_answers_refusals_and_usage_are_read(name: str, tmp_path: Path) -> None:
    async with serve_providers(bad_rows=("text 3 ",)) as server:
        got = await session(name, tmp_path, server, asked(8))
    assert isinstance(got[3], RequestRefused)
    assert got[3].refusal is None
    assert "too long for this model" in str(got[3])
    for number, answer in enumerate(got):
        if number != 3:
            assert answer.samples[0].text == f"answer to Rate text {number} from 1 to 5"
            assert answer.samples[0].finish_reason == "stop"
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (12, 3)
            assert answer.usage.cost is None, "known to nobody who has not the price"
    assert len(server.batches) == 1


@pytest.mark.parametrize("name", PROVIDERS)
async def test_images_are_in_the_batch_and_their_names_in_the_journal(
    name: str, tmp_path: Path
) -> None:
    """Files are read for the batch; what is kept until it ends are references."""
    images = ImageReader(tmp_path)
    await asyncio.to_thread((tmp_path / "a.png").write_bytes, png(200))
    images.take("a.png")
    request = asked(1)[0].model_copy(update={"images": tuple(images.images)})
    async with serve_providers() as server:
        (died,) = await session(name, tmp_path, server, [request], note=3)
        assert not isinstance(died, Response)
        kept, sent = (
            (tmp_path / "batches").glob(f"*.{kind}.jsonl") for kind in ("requests", "input")
        )
        content = png_uri(200).partition(",")[2]
        assert content not in (noted := next(kept).read_text())
        assert "a.png" in noted
        assert content in next(sent).read_text()
        (answer,) = await session(name, tmp_path, server, [request])
    assert answer.samples[0].text.startswith("answer to")


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_row_says_which_parameter_was_refused(name: str, tmp_path: Path) -> None:
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    async with serve_providers(bad_rows=("text 1 ",), bad_row_message=message) as server:
        answer, refused = await session(name, tmp_path, server, asked(2))
    assert isinstance(answer, Response)
    assert type(refused) is RequestRefused
    assert refused.refusal == Refusal("drop", "temperature")


async def test_lines_of_openai_say_which_parameter_was_refused() -> None:
    """A status with a body, an error beside it, or an error alone."""
    said = {"message": "Unknown parameter: 'seed'.", "type": "invalid_request_error"}
    lines: list[dict[str, Any]] = [
        {"response": {"status_code": 400, "body": {"error": said}}, "error": None},
        {"response": {"status_code": 400, "body": None}, "error": said},
        {"response": None, "error": {**said, "code": "invalid_request"}},
    ]
    for line in lines:
        row = result_in(
            {"custom_id": "k", **line},
            lambda status, body: http_errors.from_status(
                status, {}, orjson.dumps(body), http_errors.ServerName("h")
            ),
        )
        assert isinstance(row.error, RequestRefused)
        assert row.error.refusal == Refusal("drop", "seed")


async def test_answers_of_gemini_without_metadata_are_distinguished_by_their_order(
    tmp_path: Path,
) -> None:
    """If some are missing they cannot be matched, and no answer is taken for another's."""
    async with serve_providers(bad_rows=("text 3 ",), without_metadata=True) as server:
        got = await session("gemini/m", tmp_path, server, asked(8))
        assert isinstance(got.pop(3), RequestRefused)
        assert [answer.samples[0].text for answer in got] == [
            f"answer to Rate text {number} from 1 to 5" for number in range(8) if number != 3
        ]
        server.expire = 2
        (tmp_path / "expired").mkdir()
        got = await session("gemini/m", tmp_path / "expired", server, asked(8))
        assert not any(isinstance(answer, Response) for answer in got)


async def test_answers_of_gemini_come_together_and_may_be_longer_than_one(tmp_path: Path) -> None:
    """The limit is one for an answer, not for those of a whole batch."""
    async with serve_providers() as server:
        short = Endpoint(max_bytes=300)
        got = await session("gemini/m", tmp_path, server, asked(8), endpoint=short)
    assert all(isinstance(answer, Response) for answer in got)


async def test_together_is_asked_even_for_a_batch_that_was_not_uploaded(tmp_path: Path) -> None:
    """The answer shows that the provider can be reached."""
    batch = BatchRecord("tag", "m", "/v1/chat/completions", 1, 0.0)
    async with serve_providers() as server:
        provider = provider_of("together_ai/m", server)
        server.batches["other"] = {"id": "other"}
        assert await provider.find(batch, ()) is None
    with pytest.raises(NothingListening):
        await provider.find(batch, ())
    await provider.aclose()


@pytest.mark.parametrize("name", ["anthropic/m", "gemini/m", "groq/m"])
async def test_requests_that_a_batch_did_not_run_go_to_one_more(name: str, tmp_path: Path) -> None:
    async with serve_providers(expire=1) as server:
        got = await session(name, tmp_path, server, asked(8))
    assert len(server.batches) == 2
    assert set(server.billed.values()) == {1}
    assert all(isinstance(answer, Response) for answer in got)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_random_deaths_pay_for_nothing_twice(name: str, tmp_path: Path) -> None:
    rng, deaths, number = random.Random(7), 0, 0
    async with serve_providers() as server:
        while deaths < (8 if name == "groq/m" else 15):  # the queue's own test covers the format
            number += 1
            folder, requests = tmp_path / str(number), asked(6)
            folder.mkdir()
            server.billed.clear()
            for _ in range(rng.randint(1, 3)):
                fate: dict[str, Any] = (
                    {"put": rng.randint(1, 6)}
                    if rng.random() < 0.3
                    else {"note": rng.randint(1, 5), "after": rng.random() < 0.5}
                )
                got = await session(name, folder, server, requests, **fate)
                deaths += any(not isinstance(answer, Response) for answer in got)
            got = await session(name, folder, server, requests)
            assert [answer.samples[0].text for answer in got] == [
                f"answer to Rate text {i} from 1 to 5" for i in range(6)
            ]
            assert set(server.billed.values()) == {1}
            server.batches.clear()


async def test_a_batch_of_anthropic_is_distinguished_once_it_has_ended(tmp_path: Path) -> None:
    """Only its results show whose it is: until then nothing is submitted again."""
    async with serve_providers() as server:
        await session("anthropic/m", tmp_path, server, asked(3), note=2)  # dies before "submitted"
        server.held = 20
        got = await session("anthropic/m", tmp_path, server, asked(3))
        assert all(isinstance(answer, Response) for answer in got)
        assert (len(server.batches), set(server.billed.values())) == (1, {1})


async def test_a_run_that_only_submits_does_not_wait_until_a_batch_is_recognized(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says why once, and a later session goes on."""
    async with serve_providers() as server:
        await session("anthropic/m", tmp_path, server, asked(3), note=2)
        server.held = 1_000_000
        got = await session("anthropic/m", tmp_path, server, asked(3), submit_only=True)
        assert all(isinstance(answer, BatchesSubmitted) for answer in got)
        assert sum("whether it is among them shows" in each for each in caplog.messages) == 1
        server.held = 0
        got = await session("anthropic/m", tmp_path, server, asked(3))
        assert all(isinstance(answer, Response) for answer in got)
        assert (len(server.batches), set(server.billed.values())) == (1, {1})


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_doctor_probes_the_batches_of_each_provider(name: str, tmp_path: Path) -> None:
    """In two batches; abilities that batches lack are reported without one."""
    async with serve_providers() as server:
        dialect = provider_of(name, server)
        async with test_batch.opened(tmp_path, server, name=name, dialect=dialect) as queue:
            findings = {finding.ability: finding for finding in await examine_batches(queue)}
        assert len(server.batches) == 2
    assert {ability: finding.verdict for ability, finding in findings.items()} == {
        "batch chat": "yes",
        "batch n": "no",
        "batch logprobs": "no",
        "batch json_schema": "wrong",  # the servers answer every request with text
    }
    if name in ("anthropic/m", "groq/m"):
        assert "not take several samples" in findings["batch n"].detail


AZURE = "https://me.openai.azure.com"
GATEWAY = "https://gateway.example"
DATED = "?api-version=2024-10-21"


@pytest.mark.parametrize(
    ("name", "given", "used"),
    [
        ("azure", AZURE, f"{AZURE}/openai/v1"),
        ("azure", f"{AZURE}/openai/v1/", f"{AZURE}/openai/v1"),
        ("azure", f"{AZURE}/{DATED}", f"{AZURE}/openai{DATED}"),
        ("azure", f"{GATEWAY}/openai-proxy", f"{GATEWAY}/openai-proxy/openai/v1"),
        ("azure", f"{AZURE}/openai/deployments/m{DATED}", f"{AZURE}/openai{DATED}"),
        ("anthropic", f"{GATEWAY}/v1/messages", f"{GATEWAY}/v1"),
        ("anthropic", GATEWAY, f"{GATEWAY}/v1"),
        ("anthropic", f"{GATEWAY}/v1", f"{GATEWAY}/v1"),
        ("openai", f"{GATEWAY}/v1", f"{GATEWAY}/v1"),
    ],
)
async def test_addresses_are_those_that_single_calls_take(name: str, given: str, used: str) -> None:
    """litellm adds the API's own path to the addresses of Azure and Anthropic."""
    assert batch_address(name, given, Endpoint()) == used


async def test_a_batch_that_groq_lists_on_a_later_page_is_found(tmp_path: Path) -> None:
    """Its list comes in pages that a cursor leads through, and in no documented order."""
    async with serve_providers() as server:
        for number in range(5):
            server.batches[f"other-{number}"] = {"id": f"other-{number}", "created_at": number}
        got = await session("groq/m", tmp_path, server, asked(3), note=3)  # dies at "submitted"
        assert not any(isinstance(answer, Response) for answer in got)
        got = await session("groq/m", tmp_path, server, asked(3))
        assert all(isinstance(answer, Response) for answer in got)
        assert len(server.batches) == 6


async def test_the_reason_why_groq_refused_a_file_is_reported(tmp_path: Path) -> None:
    async with serve_providers(refused_files=1) as server:
        got = await session("groq/m", tmp_path, server, asked(2))
    assert all(isinstance(error, RequestRefused) for error in got)
    assert "line 1 is no JSON" in str(got[0])


@pytest.mark.parametrize("provider", KNOWN)
async def test_every_provider_is_opened_by_the_name_of_a_model(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--model NAME --batch` opens it: a prefix here must be one of a backend, or of litellm."""
    monkeypatch.setenv("KEY_OF_THE_TEST", KEY)
    where = {"api_base": "http://127.0.0.1:9", "api_key_env": "KEY_OF_THE_TEST"}
    async with connect(f"{provider}/m", batch=True, **where) as model:
        assert model.name == f"{provider}/m"


async def test_only_groq_runs_a_batch_for_longer_than_a_day(tmp_path: Path) -> None:
    asked_for = {"api_base": "http://127.0.0.1:1", "api_key": KEY, "endpoint": Endpoint()}
    with pytest.raises(ConfigurationError, match="batch_window"):
        open_dialect("openai/m", window="7d", **asked_for)
    async with serve_providers() as server:
        asked_for["api_base"] = server.url + PROVIDERS["groq/m"]
        provider = open_dialect("groq/m", window="7d", **asked_for)
        file = tmp_path / "lines.jsonl"
        file.write_bytes(provider.encode("key", asked(1)[0]))
        batch = BatchRecord("tag", "m", provider.group(asked(1)[0]), 1, 0.0)
        name = await provider.upload(file)
        assert name in server.files
        await provider.submit(replace(batch, uploaded=name), file)
        await provider.aclose()
    assert [batch["completion_window"] for batch in server.batches.values()] == ["7d"]


@pytest.mark.parametrize(
    ("name", "variable"), [("together_ai/m", "TOGETHER_API_KEY"), ("gemini/m", "GOOGLE_API_KEY")]
)
async def test_the_key_is_found_where_single_calls_find_it(
    name: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in KNOWN[name.partition("/")[0]].key_variables:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, KEY)
    async with serve_providers() as server:
        provider = open_dialect(
            name, api_base=server.url + PROVIDERS[name], api_key=None, endpoint=Endpoint()
        )
        nothing = BatchRecord("tag", "m", "", 0, 0.0, uploaded="file-0")
        assert await provider.find(nothing, ()) is None  # the server checks the key
        await provider.aclose()


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("anthropic/m", ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
        ("openai/m", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
        ("groq/m", ("GROQ_API_BASE",)),
        ("gemini/m", ("GEMINI_API_BASE",)),
        ("together_ai/m", ("TOGETHER_AI_API_BASE",)),
    ],
)
async def test_the_address_is_found_where_single_calls_find_it(
    name: str, variables: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else the key of a gateway would be sent to the provider; the first that is set holds."""
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    nothing = BatchRecord("tag", "m", "", 0, 0.0, uploaded="file-0")
    serve: Any = serve_batches if name == "openai/m" else serve_providers
    async with serve() as server:
        for variable in reversed(variables):  # the one before is set, too
            monkeypatch.setenv(variable, server.url + PROVIDERS.get(name, ""))
            provider = open_dialect(name, api_base=None, api_key=KEY, endpoint=Endpoint())
            assert await provider.find(nothing, ()) is None
            await provider.aclose()
            monkeypatch.setenv(variable, "http://127.0.0.1:1")


async def test_a_user_in_the_address_replaces_a_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in single calls; a key that is given beside it is refused."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    address: dict[str, Any] = {"api_base": "http://me:pass-word@127.0.0.1:1/v1"}
    provider = open_dialect("openai/m", api_key=None, endpoint=Endpoint(), **address)
    await provider.aclose()
    with pytest.raises(ConfigurationError, match="a header of its own"):
        open_dialect("openai/m", api_key=KEY, endpoint=Endpoint(), **address)
