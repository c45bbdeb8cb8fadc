"""Images in requests: the bodies of every API, when files are read, and what refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.pictures import png, png_uri
from textassay.runtime import errors
from textassay.runtime.backends import openai_format, responses_format
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.openai_format import choices_as_request
from textassay.runtime.backends.scripted import DryRunModel, ScriptedModel
from textassay.runtime.batches.model import open_dialect
from textassay.runtime.calls.budget import TokenForecast
from textassay.runtime.calls.call import Call, Posting
from textassay.runtime.calls.retry import probe_like
from textassay.runtime.images import IMAGE_TOKENS, Image, ImageReader
from textassay.runtime.model import ChatMessage, ChoicesRequest, Request, load_images, with_images

URL = "https://example.org/cat.png"
LINK = Image(number=2, name=URL, place=URL)
CHAT = (
    ChatMessage(role="system", content="Be strict."),
    ChatMessage(role="user", content="Rate [Image 1]."),
    ChatMessage(role="assistant", content="Maybe."),
    ChatMessage(role="user", content="A number."),
)


def file_in(folder: Path, content: bytes = png()) -> Image:
    path = folder / "a.png"
    path.write_bytes(content)
    return ImageReader(folder).add("a.png")


@pytest.fixture
def asked(tmp_path: Path) -> Request:
    """A request with a file and an address."""
    return Request(messages=CHAT, images=(file_in(tmp_path), LINK), temperature=None)


async def test_every_api_is_sent_images_before_the_text_of_the_first_message(
    asked: Request,
) -> None:
    """Each after its number; the other messages stay as they are."""
    ready = await with_images(asked)
    data = png_uri().partition(",")[2]

    def labeled(kind: str, first: Any, second: Any) -> list[Any]:
        def text(words: str) -> Any:
            return {"type": kind, "text": words} if kind else {"text": words}

        return [text("Image 1:"), first, text("Image 2:"), second, text("Rate [Image 1].")]

    chat = openai_format.prompt_fields(ready)["messages"]
    assert chat[1]["content"] == labeled(
        "text",
        {"type": "image_url", "image_url": {"url": png_uri()}},
        {"type": "image_url", "image_url": {"url": URL}},
    )
    assert [chat[at]["content"] for at in (0, 2, 3)] == ["Be strict.", "Maybe.", "A number."]
    assert responses_format.request_fields(ready)["input"][1]["content"] == labeled(
        "input_text",
        {"type": "input_image", "image_url": png_uri()},
        {"type": "input_image", "image_url": URL},
    )
    batched = {
        name: orjson.loads(
            open_dialect(name, api_base=None, api_key="k", endpoint=Endpoint()).encode("k", ready)
        )
        for name in ("anthropic/m", "gemini/m", "openai/m")
    }
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert batched["anthropic/m"]["params"]["messages"][0]["content"] == labeled(
        "text",
        {"type": "image", "source": source},
        {"type": "image", "source": {"type": "url", "url": URL}},
    )
    assert batched["gemini/m"]["request"]["contents"][0]["parts"] == labeled(
        "", {"inlineData": {"mimeType": "image/png", "data": data}}, {"fileData": {"fileUri": URL}}
    )
    assert batched["openai/m"]["body"]["messages"] == chat


def test_a_marked_prefix_begins_with_the_images() -> None:
    request = Request(messages=CHAT[1:2], images=(LINK,), temperature=None)
    posting = Posting(shared_prefix=4, prefix_mark="block")
    *shown, first, rest = openai_format.prompt_fields(request, posting)["messages"][0]["content"]
    assert [part["type"] for part in shown] == ["text", "image_url"]
    assert (first["text"], rest["text"]) == ("Rate", " [Image 1].")
    assert "cache_control" in first
    assert posting.prefix_of(request) == f"{URL}\nRate"


async def test_a_server_gets_the_file_and_the_key_knows_its_digest_alone(
    mock_server: Any, asked: Request
) -> None:
    bodies: list[Any] = []
    server = await mock_server(reply=lambda body, draw: bodies.append(body) or "4")
    model = DirectModel("direct/m", api_base=server.url)
    await model.generate(asked)
    await model.aclose()
    assert bodies[0]["messages"][1]["content"][1]["image_url"]["url"] == png_uri()
    assert asked.images[0].place.endswith("a.png")


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_a_file_that_is_another_than_the_data_named_is_not_sent(
    change: str, tmp_path: Path
) -> None:
    image = file_in(tmp_path, png(red=len(change), side=9))
    image = image.model_copy(update={"digest": "0" * 64})
    if change == "gone":
        Path(image.place).unlink()
    with pytest.raises(errors.DataError, match="can no longer" if change == "gone" else "changed"):
        load_images([image])


def test_a_file_is_read_once(tmp_path: Path) -> None:
    """What was read to check the data is what is sent."""
    image = file_in(tmp_path, png(red=77))
    Path(image.place).unlink()
    (loaded,) = load_images([image])
    assert loaded.place == png_uri(77)


async def test_estimates_count_a_constant_for_each_image(asked: Request) -> None:
    bare = asked.model_copy(update={"images": ()})
    forecast = TokenForecast()
    assert forecast.prompt(asked) == forecast.prompt(bare) + 2 * IMAGE_TOKENS
    model = DryRunModel(ScriptedModel(["x"]), price=None)
    used = [(await model.generate(one)).usage.prompt_tokens for one in (asked, bare)]
    assert used[0] - used[1] == 2 * IMAGE_TOKENS


def test_choices_keep_images_and_probes_have_none(asked: Request) -> None:
    choices = ChoicesRequest(messages=CHAT, images=asked.images, choices={"yes": ("yes",)})
    assert choices_as_request(choices).images == asked.images
    assert probe_like(Call(asked)).request.images == ()


def test_a_plain_prompt_has_no_images() -> None:
    with pytest.raises(ValueError, match="a plain prompt has no images"):
        Request(prompt="Rate it.", images=(LINK,))
