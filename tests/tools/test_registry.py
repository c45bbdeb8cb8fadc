"""Specs, options, groups, configuration tables, plug-ins, and that naming a tool loads nothing
heavy."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.tools import GROUPS, KINDS, ToolSpec, build, describe_all, parse

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("rougeL", ToolSpec(kind="rougeL")),
        ("nli:/models/a b", ToolSpec(kind="nli", model="/models/a b")),
        (
            "sum_bleurt=bleurt:org/name@abc",
            ToolSpec(kind="bleurt", name="sum_bleurt", model="org/name@abc"),
        ),
        (r"nli:C:\models\nli", ToolSpec(kind="nli", model=r"C:\models\nli")),
        (
            "x=bleu?lowercase=false&n=",
            ToolSpec(kind="bleu", name="x", options={"lowercase": "false", "n": ""}),
        ),
        (
            "lm_prob:a/m?template=A%20%7B",
            ToolSpec(kind="lm_prob", model="a/m", options={"template": "A {"}),
        ),
    ],
)
def test_specs_are_read(spec, expected):
    """Name, kind, model, options."""
    assert parse(spec) == expected


@pytest.mark.parametrize("spec", ["", "a b", "=nli", "nli?window", "nli:", "?x=1"])
def test_unreadable_specs_say_how_one_is_written(spec):
    """With an example."""
    with pytest.raises(ConfigurationError, match=r"\?OPTION=VALUE"):
        build([spec])


def test_options_are_read_as_what_they_are():
    """Texts from the command line become numbers and truth values."""
    bleu, novelty, nli = build(
        ["bleu?lowercase=false", "novelty?n=3", "nli:/m?engine=onnx&window_tokens=300"]
    )
    assert (bleu.lowercase, novelty.n, nli.engine, nli.window_tokens) == (False, 3, "onnx", 300)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "bleu?lowercas=false",
            "unknown option of the tool bleu: 'lowercas'; did you mean 'lowercase'?",
        ),
        ("bleu?lowercase=maybe", "option lowercase of the tool bleu: 'maybe'"),
        ("bleu?tokenize=ja-mecab", "option tokenize of the tool bleu"),
        ("nli:/m?engine=tensorflow", "option engine of the tool nli"),
        ("repetition?n=0", "option n of the tool repetition: '0': Input should be"),
        ("novelty?n=-1", "option n of the tool novelty: '-1'"),
        ("coverage?shortest=0", "option shortest of the tool coverage: '0'"),
        ("rouge1?variant=rouge2", "unknown option of the tool rouge1: 'variant'"),
        ("rogue", "unknown tool 'rogue'; did you mean 'rouge'?"),
        ("length:/model", "unknown option of the tool length: 'model'"),
        ("x=rouge", "stands for rouge1, rouge2, rougeL"),
        (
            "unieval?aspect=beauty",
            "unknown aspect of UniEval's summarization 'beauty'; known: coherence",
        ),
        ("unieval?task=poetry", "unknown task of UniEval 'poetry'"),
        ("lm_prob?template=none", "needs {premise} exactly once"),
    ],
)
def test_wrong_specs_name_what_is_wrong(spec, message):
    """And what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        build([spec])
    assert message in str(caught.value)


def test_one_kind_under_several_names():
    """As Fusion-Eval has BLEURT and SumBLEURT."""
    first, second = build(["bleurt:/models/bleurt", "sum_bleurt=bleurt:/models/sum"])
    assert (first.name, second.name) == ("bleurt", "sum_bleurt")
    assert first.signature != second.signature


def test_two_tools_cannot_share_a_name():
    """Their scores could not be told apart."""
    with pytest.raises(ConfigurationError, match="two tools are called 'bleurt'"):
        build(["bleurt:/a", "bleurt:/b"])


def test_groups_stand_for_their_members():
    """`rouge` is the usual three."""
    assert [t.name for t in build(["rouge", "bleu"])] == [*GROUPS["rouge"], "bleu"]
    assert {t.refs for t in build(["rouge?refs=first"])} == {"first"}


def test_tables_of_the_configuration_name_tools():
    """Under their own names, with typed options."""
    table = {
        "sum_bleurt": {"kind": "bleurt", "model": "/models/sum", "combine": "mean"},
        "novelty": {"n": 4},
    }
    made = build(["sum_bleurt", "novelty", "length"], table=table)
    assert [t.name for t in made] == ["sum_bleurt", "novelty", "length"]
    assert (made[0].combine, made[1].n) == ("mean", 4)
    with pytest.raises(UnknownName, match="option of the tool novelty"):
        build(["novelty"], table={"novelty": {"order": 4}})


@pytest.mark.asyncio
async def test_lm_prob_takes_the_open_model():
    """Unless its spec names another."""
    model = ScriptedModel([])
    (own,) = build(["lm_prob"], model=model)
    (other,) = build(["lm_prob:direct/x"], model=model)
    assert own.connected is model
    assert (other.connected, other.model) == (None, "direct/x")


def test_every_kind_describes_itself():
    """For a planner: what, range, direction, inputs."""
    described = {d.kind: d for d in describe_all()}
    assert set(KINDS) <= set(described)
    for kind in KINDS:
        assert len(described[kind].description) > 60
    assert described["nli"].scale == (0, 1)
    assert described["nli"].needs == ("premise",)
    assert described["nli"].extra == "nli"
    assert described["rouge1"].extra is None
    assert not described["ter"].higher_is_better
    assert "premise" in described["nli"].description
    assert "hypothesis" in described["nli"].description


def python(code, *, path=(), blocked=()):
    """Run code in a fresh interpreter; `blocked` modules cannot be imported there."""
    guard = f"""
        import sys
        class Without:
            def __init__(self, finder):
                self.finder = finder
            def find_spec(self, name, path=None, target=None):
                if name.partition('.')[0] not in {list(blocked)!r}:
                    return self.finder.find_spec(name, path, target)
            def __getattr__(self, name):
                return getattr(self.finder, name)
        sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
        sys.path[:0] = {[str(ROOT), *map(str, path)]!r}
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(guard) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_naming_and_listing_tools_imports_nothing_heavy():
    """torch, transformers, onnxruntime, and what rouge-score and sacrebleu bring."""
    found = python("""
        import textassay.tools as t
        t.describe_all()
        models = ["nli:/m", "bleurt:/m", "bertscore:/m", "embedding:/m", "unieval:/m"]
        t.build(["rouge", "bleu", *models, "lm_prob:a/m"])
        heavy = {"torch", "transformers", "onnxruntime", "tokenizers", "nltk", "rouge_score",
                 "sacrebleu", "litellm"}
        print(sorted(heavy & set(sys.modules)))
    """)
    assert found.strip() == "[]"


@pytest.mark.parametrize(
    ("spec", "blocked", "expected"),
    [
        ("nli:{m}", "torch transformers onnxruntime tokenizers", "pip install 'textassay[nli]'"),
        ("nli:{m}?engine=transformers", "torch", "pip install 'textassay[nli]'"),
        ("nli:{m}?engine=onnx", "onnxruntime", "pip install 'textassay[onnx]'"),
        ("unieval:{m}?aspect=fluency", "transformers", "pip install 'textassay[nli]'"),
        ("nli:org/name@main?engine=onnx", "huggingface_hub", "pip install 'textassay[onnx]'"),
    ],
)
def test_a_missing_extra_gets_one_line(spec, blocked, expected, tmp_path):
    """Which says what to install."""
    (tmp_path / "config.json").write_text("{}")
    said = python(
        f"""
        import asyncio
        import textassay.tools as t
        from textassay.runtime.messages import Example
        from textassay.runtime.errors import ConfigurationError
        (tool,) = t.build([{spec.format(m=tmp_path)!r}])
        try:
            asyncio.run(tool.score(Example(output="a text", source="a source")))
        except ConfigurationError as error:
            print(error)
        """,
        blocked=blocked.split(),
    )
    assert expected in said
    assert len(said.strip().splitlines()) == 1


def plugin(folder, entry, code):
    """Write a package with an entry point, as an installer leaves it."""
    (folder / "other_tools.py").write_text(textwrap.dedent(code))
    info = folder / "other_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-tools\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[textassay.tools]\n{entry}\n")


def test_other_packages_add_tools_by_entry_points(tmp_path):
    """A function with the decorator is enough."""
    plugin(
        tmp_path,
        "shouting = other_tools:shouting",
        """
        from textassay.tools import tool

        @tool(description="Share of capital letters, 0 to 1.", scale=(0, 1), higher_is_better=False)
        def shouting(example):
            return sum(c.isupper() for c in example.output) / len(example.output)
        """,
    )
    found = python(
        """
        import asyncio
        import textassay.tools as t
        from textassay.runtime.messages import Example
        print([d.kind for d in t.describe_all() if d.kind == "shouting"])
        (tool,) = t.build(["loud=shouting"])
        score = asyncio.run(tool.score(Example(output="ABcd")))
        print(score.aspect, score.value, score.how, score.scale)
        """,
        path=[tmp_path],
    )
    assert found.split("\n")[:2] == ["['shouting']", "loud 0.5 tool (0.0, 1.0)"]


def test_a_broken_entry_point_is_named(tmp_path):
    """With the package it comes from."""
    plugin(tmp_path, "broken = other_tools:nothing", "")
    found = python(
        """
        import textassay.tools as t
        from textassay.runtime.errors import ConfigurationError
        try:
            t.build(["broken"])
        except ConfigurationError as error:
            print(error)
        """,
        path=[tmp_path],
    )
    assert "the tool 'broken' of other-tools cannot be loaded" in found
