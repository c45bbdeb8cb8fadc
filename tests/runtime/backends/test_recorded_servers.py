"""Answers that real servers gave, read again through both ways of asking one.

`python -m tests.recorded_servers.record` recorded them. The first three had the same random GGUF
file behind them, so their numbers are comparable.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.recorded_servers.questions import QUESTIONS
from tests.runtime.backends.test_answers_of_servers import serving
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm

pytestmark = pytest.mark.asyncio

FOLDER = Path(__file__).parents[2] / "recorded_servers"
BACKENDS = {"direct": DirectModel, "openai": LiteLLMModel}
LLAMA = ("llama_cpp_server", "litellm_proxy", "llama_server")
"""Servers that evaluated the same file."""

Recorded = Callable[[str, str], Any]


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    load_litellm()


@pytest_asyncio.fixture(params=BACKENDS)
async def recorded(request: pytest.FixtureRequest) -> AsyncIterator[Recorded]:
    """Ask a question of a server that gives the recorded answers."""

    async def ask(server: str, question: str) -> Any:
        exchanges = json.loads((FOLDER / f"{server}.json").read_text())[question]

        async def answer(_: web.Request) -> web.Response:
            given = exchanges.pop(0)
            return web.Response(
                status=given["status"], content_type=given["type"], text=given["body"]
            )

        async with serving(answer) as url:
            model = BACKENDS[request.param](
                f"{request.param}/judge", api_base=url, api_key="sk-any-key"
            )
            try:
                found = await QUESTIONS.get(question, QUESTIONS["chat"])(model)
            finally:
                await model.aclose()
        assert not exchanges, "it is asked as often as when it was recorded"
        return found

    yield ask


@pytest.mark.parametrize("server", [*LLAMA, "transformers_serve"])
async def test_a_chat_is_answered_and_counted(server, recorded):
    """The plainest question."""
    response = await recorded(server, "chat")
    assert response.samples[0].text
    assert response.samples[0].finish_reason == "length"
    assert response.usage.prompt_tokens > 10
    assert response.usage.completion_tokens >= 6


@pytest.mark.parametrize(
    ("server", "samples"),
    [("llama_cpp_server", 1), ("litellm_proxy", 1), ("llama_server", 3), ("transformers_serve", 1)],
)
async def test_servers_that_ignore_n_give_one_sample(server, samples, recorded):
    """Which is an answer; the rest is asked for by whoever needs it."""
    assert len((await recorded(server, "samples")).samples) == samples


@pytest.mark.parametrize("question", ["chat logprobs", "prompt logprobs"])
@pytest.mark.parametrize("server", LLAMA)
async def test_log_probabilities_are_read(question, server, recorded):
    """In the shape of chats or of completions, whichever a server sends for either."""
    (sample,) = (await recorded(server, question)).samples
    assert len(sample.logprobs) == 3
    assert "".join(token.token for token in sample.logprobs) == sample.text
    assert all(token.logprob < 0 for token in sample.logprobs)


@pytest.mark.parametrize("server", LLAMA)
async def test_choices_are_read(server, recorded):
    """The same probabilities from every server of the same model."""
    prompt = await recorded(server, "prompt choices")
    assert prompt.logprobs == {
        "rate": pytest.approx(-3.694, abs=0.005),
        "5": pytest.approx(-4.467, abs=0.005),
    }
    chat = await recorded(server, "chat choices")  # llama-server puts one token more before it
    expected = -2.637 if server == "llama_server" else -2.785
    assert chat.logprobs["J"] == pytest.approx(expected, abs=0.005)
    assert chat.logprobs["i"] < chat.logprobs["J"]


@pytest.mark.parametrize("server", ["llama_cpp_server", "litellm_proxy"])
async def test_an_echo_is_aligned_whatever_characters_it_holds(server, recorded):
    """Tokens of a part of a character come as empty texts, which count all the same."""
    plain = await recorded(server, "continuation")
    assert "".join(token.token for token in plain.tokens) == " it is good."
    found = await recorded(server, "continuation of characters")
    assert [token.token for token in found.tokens[3:9]] == [" ", "", "", "", "good", ""]
    assert len(found.tokens) == 20
    assert all(token.logprob < 0 for token in found.tokens)


@pytest.mark.parametrize("question", ["continuation", "continuation of characters"])
@pytest.mark.parametrize("server", ["llama_server", "transformers_serve"])
async def test_servers_without_an_echo_are_told_apart(question, server, recorded):
    """Their answer to the question is no likelihood of the text."""
    with pytest.raises(errors.CapabilityError, match="does not echo"):
        await recorded(server, question)


@pytest.mark.parametrize(
    "question", ["chat logprobs", "chat choices", "prompt logprobs", "prompt choices"]
)
async def test_missing_log_probabilities_are_said(question, recorded):
    """`transformers serve` leaves them out."""
    with pytest.raises(errors.CapabilityError, match="no log-probabilities"):
        await recorded("transformers_serve", question)


@pytest.mark.parametrize("server", ["llama_cpp_server", "litellm_proxy"])
async def test_a_schema_that_a_server_does_not_take_is_no_outage(server, recorded):
    """They answer 500, which would be asked again."""
    with pytest.raises(errors.RequestRefused, match="response_format"):
        await recorded(server, "schema")


async def test_a_schema_is_kept(recorded):
    """By llama-server, which turns it into a grammar; the model behind it wanders off."""
    (sample,) = (await recorded("llama_server", "schema")).samples
    assert sample.text.startswith("{")
    assert not sample.text.strip("{ \n\t")
    assert sample.finish_reason == "length"


@pytest.mark.parametrize("server", LLAMA)
async def test_a_text_beyond_the_context_is_that_texts_error(server, recorded):
    """Nothing else fails because of it."""
    with pytest.raises(errors.ContextTooLong) as caught:
        await recorded(server, "too long")
    assert not caught.value.stops_run


@pytest.mark.parametrize("server", ["litellm_proxy", "transformers_serve"])
async def test_a_wrong_model_is_told(server, recorded):
    """It would hit every call."""
    with pytest.raises(errors.ModelNotFound):
        await recorded(server, "wrong model")


async def test_a_wrong_key_is_told(recorded):
    """The proxy has no database of keys, and says only that."""
    with pytest.raises(errors.AuthenticationFailed):
        await recorded("litellm_proxy", "wrong key")
