"""Images in data: accepted and refused forms, and what distinguishes examples."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures import png, png_uri
from tests.runtime.data.rows import complaint, lines, saved
from textassay.runtime.conversation import ConversationMessage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError
from textassay.runtime.images import MAX_IMAGE_BYTES
from textassay.runtime.messages import Example

URL, URI, DATA = "https://example.org/cat", png_uri(), base64.b64encode(png()).decode()
GIF = b"GIF89a" + bytes(20)


def written(folder: Path, row: dict[str, Any], content: bytes = png()) -> Examples:
    """Write a row and an image, `a.png`, into one folder, and open the row."""
    saved(folder, content, "a.png")
    return Examples(saved(folder, lines(row)))


PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "OpenAI": ({"type": "image_url", "image_url": {"url": URI, "detail": "low"}}, URI),
    "OpenAI, address": ({"type": "image_url", "image_url": {"url": URL}}, URL),
    "OpenAI, text": ({"type": "image_url", "image_url": URL}, URL),
    "responses": ({"type": "input_image", "image_url": URI}, URI),
    "Anthropic": (
        {"type": "image",
         "source": {"type": "base64", "media_type": "image/png", "data": DATA}}, URI),
    "Anthropic, address": ({"type": "image", "source": {"type": "url", "url": URL}}, URL),
    "Inspect": ({"type": "image", "image": URI, "detail": "auto"}, URI),
    "Inspect, address": ({"type": "image", "image": URL}, URL),
    "Gemini": ({"inlineData": {"mimeType": "image/png", "data": DATA}}, URI),
    "Gemini, snake": ({"inline_data": {"mime_type": "image/png", "data": DATA}}, URI),
    "Gemini, address": ({"fileData": {"mimeType": "image/png", "fileUri": URL}}, URL),
    "LangChain": (
        {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": DATA}, URI),
    "LangChain, 1": ({"type": "image", "base64": DATA, "mime_type": "image/png"}, URI),
    "AI SDK": ({"type": "file", "mediaType": "image/png", "data": DATA}, URI),
    "OpenInference": (
        {"message_content": {"type": "image", "image": {"image": {"url": URL}}}}, URL),
    "Bedrock": ({"image": {"format": "png", "source": {"bytes": DATA}}}, URI),
}  # fmt: skip


@pytest.mark.parametrize("form", PARTS)
def test_a_part_of_a_message_is_an_image(form: str) -> None:
    """Its number stands where it was."""
    part, place = PARTS[form]
    row = {"messages": [{"role": "user", "content": ["What is this?", part]}], "output": "A cat."}
    (example,) = Examples([row])
    (image,) = example.images
    assert (image.number, image.place) == (1, place)
    assert image.is_link == (place == URL)
    assert example.messages == (
        ConversationMessage(role="user", content="What is this?\n[Image 1]"),
    )
    assert "What is this?\n[Image 1]" in str(example.source)
    assert Examples([example]).check().digest == Examples([row]).check().digest
    assert Example(**example.model_dump()) == example


def says(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*content]}


PART = {"type": "image_url", "image_url": {"url": URL}}
RESULT = {
    "type": "tool_result",
    "content": [{"type": "image", "source": {"type": "url", "url": URL}}],
}
IN_PLACE: list[tuple[dict[str, Any], list[str], str]] = [
    (
        {"messages": [
            {"role": "user", "content": "Look.", "images": [DATA]},
            {"role": "assistant", "content": [{"type": "tool_use", "name": "shot", "input": {}}]},
            says(RESULT),
        ]},
        [URI, URL], "[turn 2, call 1, result] [Image 2]",
    ),
    ({"messages": [{"role": "user", "content": "Look.", "images": [DATA]}]}, [URI],
     "[turn 1] user: [Image 1]\nLook."),
    # parts without content, as data for training models that see are written
    (
        {"messages": [says({"type": "image"}, {"type": "text", "text": "Now?"}, {"type": "image"})],
         "images": [URL, URI, URL + "2"]},
        [URL, URI, URL + "2"], "[turn 1] user: [Image 1]\nNow?\n[Image 2]",
    ),
    ({"image": URL, "messages": [says(PART, PART)]}, [URL], "user: [Image 1]\n[Image 1]"),
    # as data sets of the Hugging Face hub hold bytes
    ({"image": {"bytes": png(), "path": "a.png"}}, [URI], "[Image 1]"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "places", "text"), IN_PLACE)
def test_images_are_numbered_in_place(row: dict[str, Any], places: list[str], text: str) -> None:
    """One that comes twice has one number."""
    (example,) = Examples([{"output": "A cat.", **row}])
    assert [image.place for image in example.images] == places
    assert text in str(example.source)


@pytest.mark.parametrize(
    "given",
    [
        {"images": ["a.png", URL]},
        {"image": "a.png", "image_2": None, "image_url": URL},
        {"image_path": "a.png", "image_url": [URL]},
        {"images": [{"type": "image", "image": "a.png"}, {"url": URL}]},
        {"images": f'["a.png", "{URL}"]'},
    ],
)
def test_images_beside_the_texts_come_before_the_source(
    given: dict[str, Any], tmp_path: Path
) -> None:
    """A path begins where the data are."""
    row = {"source": "What do both show?", "output": "A cat.", **given}
    data = written(tmp_path, row)
    if isinstance(given.get("images"), str):  # a flat file
        text = f'source,output,images\nWhat do both show?,A cat.,"[""a.png"", ""{URL}""]"'
        data = Examples(saved(tmp_path, text, "data.csv"))
    (example,) = data
    assert example.source == "[Image 1] [Image 2]\n\nWhat do both show?"
    first, second = example.images
    assert (first.name, first.place) == ("a.png", str(tmp_path / "a.png"))
    assert first.media_type == "image/png"
    assert (second.place, second.digest) == (URL, None)
    assert data.check().images == 1
    (alone,) = Examples([{"output": "x", "image": URL}])
    assert alone.source == "[Image 1]"


def test_turns_are_shown_no_image_of_later_turns() -> None:
    def parts_of_message(text: str, address: str) -> list[Any]:
        return [text, {"type": "image_url", "image_url": address}]

    messages = [
        {"role": "user", "content": parts_of_message("First", URL)},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": parts_of_message("Second", URL + "2")},
        {"role": "assistant", "content": "A dog."},
    ]
    turns = list(Examples([{"messages": messages, "images": [URL + "0"]}], unit="turn"))
    assert [[image.number for image in turn.images] for turn in turns] == [[1, 2], [1, 2, 3]]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"image": "none.png"}, "names the image 'none.png', and"),
    ({"image": "data.jsonl"}, "should be an image in PNG, JPEG, GIF or WebP"),
    ({"image": "data:image/png;base64,AAAA"}, "should be an image in PNG"),
    ({"image": "data:image/png;base64,A"}, "base64 is damaged"),
    ({"image": "data:image/png,abc"}, "not base64"),
    ({"image": "gs://bucket/cat.png"}, "an address of a kind that is not sent to models"),
    ({"image": 7}, "should be the path of an image"),
    ({"image": "large.png"}, "at most 20 MB are sent; scale it down"),
    ({"image": "."}, "which is not a file"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "image without its content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "message 1: has an image without its content",
    ),
    ({"context": [{"text": "A page.", "image": "a.png"}]}, "passage 1 has an image"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_images_that_no_judge_could_see_are_refused(
    given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(MAX_IMAGE_BYTES + 1)
    written(tmp_path, {})
    message = complaint(saved(tmp_path, lines({"output": "x", "source": "s", **given})))
    assert "line 1, field" in message
    assert words in message


@pytest.mark.parametrize(
    "row", [{"caption": "See a.png for it"}, {"image_id": "a"}, {"n_images": 2}, {"image": ""},
            {"image": URL, "file_name": URL}, {"photo_credit": "by A. Person"}]
)  # fmt: skip
def test_values_that_are_not_images_are_kept_in_meta(row: dict[str, Any]) -> None:
    assert Examples([{"output": "x", **row}]).check().count == 1


@pytest.mark.parametrize(
    ("content", "kind"),
    [(png(), "image/png"), (GIF, "image/gif"), (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
     (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp")],
)  # fmt: skip
def test_the_type_is_that_of_the_content(content: bytes, kind: str, tmp_path: Path) -> None:
    """Whatever the file is called."""
    (example,) = written(tmp_path, {"output": "x", "image": "a.png"}, content)
    assert example.images[0].media_type == kind


def test_a_changed_file_under_the_same_name_is_another_example(tmp_path: Path) -> None:
    """Without an id of its own, and in the digest of the data."""

    def seen(content: bytes, folder: Path = tmp_path) -> tuple[str, str]:
        data = written(folder, {"output": "x", "image": "a.png"}, content)
        return data.check().digest, next(iter(data)).id

    (digest, id_), (changed, other) = seen(png()), seen(png(side=5))
    assert id_ != other
    assert digest != changed
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    assert seen(png()) == seen(png(), moved) == (digest, id_)


@given(
    before=st.sampled_from(["", "my_", "product_", "input_"]),
    name=st.sampled_from(["image", "images", "photo", "picture", "screenshot", "img", "scan", "x"]),
    after=st.sampled_from(["", "_path", "_url", "_file", "_2"]),
    value=st.sampled_from([URI, "https://example.org/a.png", [URI], [{"type": "image",
                           "image": URL}], "none.png", ["a.jpg"]]),
)  # fmt: skip
def test_no_image_is_unused_in_silence(before: str, name: str, after: str, value: Any) -> None:
    """Whatever its column is called: it is shown, named, or refused."""
    data = Examples([{"output": "o", before + name + after: value}])
    try:
        (example,) = data
    except DataError:
        return
    assert len(example.images) == 1 or data.check().unseen == {before + name + after: 1}
