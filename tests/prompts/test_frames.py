"""Frames: a prompt rendered once around its texts says what it says when rendered with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.prompts import frame, render


def written(folder: Path, text: str) -> str:
    path = folder / "own.jinja"
    path.write_text(text, encoding="utf-8")
    return str(path)


MATERIAL = (
    "Judge {{ what }}.\n{% for part in material %}{{ part.label }}: {{ part.text }}\n"
    "{% endfor %}Done."
)


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_filled_frame_equals_rendering(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    """Whatever the texts are, template markers included, filling is rendering."""
    name = written(tmp_path_factory.mktemp("frames"), MATERIAL)
    labels = [f"Text {at}" for at in range(len(texts))]
    found = frame(name, labels, what="it")
    assert found is not None
    material = [{"label": label, "text": text} for label, text in zip(labels, texts, strict=True)]
    assert found.fill(texts) == render(name, material=material, what="it")


def test_template_markers_stay_text(tmp_path: Path) -> None:
    """A text that looks like a template, or like a place for another text, stays as it is."""
    name = written(tmp_path, "{% for part in material %}{{ part.text }}|{% endfor %}")
    found = frame(name, ["a", "b"])
    assert found is not None
    assert (
        found.fill(["{{ 7 * 7 }}", "{% if %} -0- -1-"])[0].content
        == "{{ 7 * 7 }}|{% if %} -0- -1-|"
    )


@pytest.mark.parametrize(
    "text",
    ["{% for p in material %}{{ p.text | upper }}{% endfor %}", "only {{ material[0].text }}"],
)
def test_prompt_that_changes_or_drops_a_text_has_no_frame(tmp_path: Path, text: str) -> None:
    """Such a prompt is rendered with the texts themselves."""
    assert frame(written(tmp_path, text), ["a", "b"]) is None
