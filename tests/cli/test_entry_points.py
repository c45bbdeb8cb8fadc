"""Methods of other packages: found by entry point, imported only when named, refused with a
reason."""

from __future__ import annotations

import sys

import pytest

from tests.cli.harness import rows_of, textassay
from textassay.methods import METHODS, build, known
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, UnknownName

MODULE = '''
from textassay.methods import LLMScore

class Theirs(LLMScore):
    """A plain judge under a name of its own."""
    name = "theirs"
'''
POINTS = """
[textassay.methods]
theirs = their_package:Theirs
llm-score = their_package:Theirs
gone = their_package:Gone
broken = their_broken_module:Theirs
number = their_package:__name__
"""


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """An installed package with a method, and entry points that lead nowhere."""
    site = tmp_path / "site"
    info = site / "their_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (site / "their_package.py").write_text(MODULE)
    (site / "their_broken_module.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in ("their_package", "their_broken_module"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("distribution")
def test_a_method_of_another_package_runs_from_the_command_line(server, data, run):
    done = textassay(
        "score", data, "--method", "theirs", "--model", "direct/mock", "--api-base", server.url,
        "--aspects", "coherence", "--out", run, "--progress", "none",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert {row["signature"].split("|")[0] for row in rows_of(run)} == {"method:theirs"}
    assert 'n1["scores"]' in textassay("graph", "theirs").out


@pytest.mark.usefixtures("distribution")
def test_nothing_is_imported_before_it_is_named():
    """Built-in names stay ours, and a list of names imports nobody."""
    assert known() == (*METHODS, "tools", "broken", "gone", "number", "theirs")
    assert type(build("llm-score", ScriptedModel())) is METHODS["llm-score"]
    assert "their_package" not in sys.modules
    with pytest.raises(UnknownName, match="theirs"):
        build("their", ScriptedModel())


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "gone",
            r"'gone' of their-package cannot be loaded from 'their_package:Gone': AttributeError",
        ),
        ("broken", r"'broken' of their-package cannot be loaded .*: RuntimeError: no licence"),
        ("number", r"'number' of their-package is not a method: .*must be a class"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_package_and_the_reason(name, says):
    with pytest.raises(ConfigurationError, match=says):
        build(name, ScriptedModel())
