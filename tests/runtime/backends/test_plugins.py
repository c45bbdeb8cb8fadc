"""Backends of other packages, installed as a wheel would be: a module and its `dist-info`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from textassay import connect
from textassay.runtime.backends.by_name import backend_points
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import Request
from textassay.runtime.settings import Settings

pytestmark = pytest.mark.asyncio

MODULE = """
from textassay.runtime.backends.scripted import ScriptedModel

def make(name, settings):
    return ScriptedModel(lambda request: f"{name} {settings.timeout:g}", name=name)

def broken(name, settings):
    raise KeyError("no such house")

def nothing(name, settings):
    return object()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with three backends on the path."""
    (tmp_path / "house_models.py").write_text(MODULE)
    info = tmp_path / "house_models-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-models\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[textassay.models]\n"
        "house = house_models:make\n"
        "broken = house_models:broken\n"
        "nothing = house_models:nothing\n"
        "absent = house_models_absent:make\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("house_models", None)


async def test_a_prefix_of_another_package_opens_its_model(installed):
    """The callable gets the whole name and the settings."""
    assert {"house", "broken", "nothing", "absent"} <= set(backend_points())
    async with connect("house/judge-1", settings=Settings(timeout=7)) as model:
        response = await model.generate(Request(prompt="Rate."))
    assert model.name == "house/judge-1"
    assert response.samples[0].text == "house/judge-1 7"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "broken/x",
            "'broken/x' of house-models cannot be made by 'house_models:broken': KeyError",
        ),
        ("absent/x", "house-models cannot be made by 'house_models_absent:make': ModuleNotFound"),
        ("nothing/x", "is not a model: it has no name"),
    ],
)
async def test_a_backend_that_fails_is_named_with_its_package(installed, name, said):
    """The user learns which package to turn to."""
    with pytest.raises(ConfigurationError, match=said):
        async with connect(name):
            pass
