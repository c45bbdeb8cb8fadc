"""Specs, options, groups, configuration tables, plug-ins; naming a tool loads nothing heavy."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.tools import GROUPS, KINDS, ToolSpec, build, describe_all, parse

ROOT = Path(__file__).resolve().parents[2]


SPECS = {
    "rougeL": {"kind": "rougeL"},
    "nli:/models/a b": {"kind": "nli", "model": "/models/a b"},
    "my=bleurt:org/name@abc": {"kind": "bleurt", "name": "my", "model": "org/name@abc"},
    r"nli:C:\models\nli": {"kind": "nli", "model": r"C:\models\nli"},
    "x=bleu?a=false&n=": {"kind": "bleu", "name": "x", "options": {"a": "false", "n": ""}},
    "lm_prob:a/m?b=A%20%7B": {"kind": "lm_prob", "model": "a/m", "options": {"b": "A {"}},
}


@pytest.mark.parametrize("spec", SPECS)
def test_specs_are_read(spec):
    assert parse(spec) == ToolSpec(**SPECS[spec])


def test_options_are_read_as_what_they_are():
    """Texts from the command line become numbers and truth values; tables have them typed."""
    table = {
        "sum_bleurt": {"kind": "bleurt", "model": "/models/sum", "combine": "mean"},
        "coverage": {"shortest": 4},
    }
    specs = ["bleu?lowercase=false", "novelty?n=3", "nli:/m?engine=onnx&window_tokens=300"]
    specs += ["bleurt:/models/sum", "sum_bleurt", "coverage", "rouge?refs=first"]
    made = {tool.name: tool for tool in build(specs, table=table)}
    assert [*made][3:] == ["bleurt", "sum_bleurt", "coverage", *GROUPS["rouge"]]
    nli = made["nli"]
    assert (made["bleu"].lowercase, made["novelty"].n) == (False, 3)
    assert (nli.engine, nli.window_tokens) == ("onnx", 300)
    assert (made["sum_bleurt"].combine, made["coverage"].shortest) == ("mean", 4)
    assert made["bleurt"].signature != made["sum_bleurt"].signature
    assert made["rouge2"].refs == "first"
    model = ScriptedModel([])
    own, other = (build([spec], model=model)[0] for spec in ("lm_prob", "lm_prob:direct/x"))
    assert own.connected is model
    assert (other.connected, other.model) == (None, "direct/x")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        *((spec, "?OPTION=VALUE") for spec in ("", "a b", "=nli", "nli?window", "nli:", "?x=1")),
        ("bleu?lowercas=1", "option of the tool bleu: 'lowercas'; did you mean 'lowercase'?"),
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
        ("unieval?aspect=beauty", "unknown aspect of UniEval's summarization 'beauty'; known:"),
        ("unieval?task=poetry", "unknown task of UniEval 'poetry'"),
        ("lm_prob?template=none", "needs {premise} exactly once"),
        ("of_table", "unknown option of the tool novelty: 'order'"),
        ("bleurt:/b", "two tools are called 'bleurt'"),
    ],
)
def test_wrong_specs_name_what_is_wrong(spec, message):
    table = {"of_table": {"kind": "novelty", "order": 4}}
    with pytest.raises(ConfigurationError) as caught:
        build(["bleurt:/a", spec], table=table)
    assert message in str(caught.value)


def test_every_kind_describes_itself():
    """For a planner: what, range, direction, inputs."""
    described = {d.kind: d for d in describe_all()}
    assert set(KINDS) <= set(described)
    short = [kind for kind in KINDS if len(described[kind].description) <= 60]
    assert not short, f"a planner needs what it measures and its range, in a sentence: {short}"
    nli = described["nli"]
    assert (nli.scale, nli.needs, nli.extra) == ((0, 1), ("premise",), "nli")
    assert {"premise", "hypothesis"} <= set(nli.description.split())
    assert described["rouge1"].extra is None
    assert not described["ter"].higher_is_better


def python(code, *, path=()):
    """Run code in a fresh interpreter."""
    paths = f"import sys; sys.path[:0] = {[str(ROOT), *map(str, path)]!r}\n"
    ran = subprocess.run(
        [sys.executable, "-c", paths + textwrap.dedent(code)], capture_output=True, text=True
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


MISSING = {
    "nli:FOLDER": ("torch transformers onnxruntime tokenizers", "nli"),
    "nli:FOLDER?engine=transformers": ("torch", "nli"),
    "nli:FOLDER?engine=onnx": ("onnxruntime", "onnx"),
    "unieval:FOLDER?aspect=fluency": ("transformers", "nli"),
    "nli:org/name@main?engine=onnx": ("huggingface_hub", "onnx"),
}


def test_a_missing_extra_gets_one_line(tmp_path):
    """Which says what to install."""
    (tmp_path / "config.json").write_text("{}")
    code = f"""
        import asyncio
        import textassay.tools as t
        from textassay.runtime.messages import Example
        from textassay.runtime.errors import ConfigurationError

        class Without:
            def __init__(self, finder):
                self.finder = finder

            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] not in blocked:
                    return self.finder.find_spec(name, path, target)

            def __getattr__(self, name):
                return getattr(self.finder, name)

        sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
        example = Example(output="a text", source="a source")
        for spec, (modules, _) in {MISSING!r}.items():
            blocked = modules.split()
            (tool,) = t.build([spec.replace("FOLDER", {str(tmp_path)!r})])
            try:
                asyncio.run(tool.score(example))
            except ConfigurationError as error:
                print(error)
    """
    lines = python(code).strip().splitlines()
    for line, (_, extra) in zip(lines, MISSING.values(), strict=True):
        assert f"pip install 'textassay[{extra}]'" in line


def test_other_packages_add_tools_by_entry_points(tmp_path):
    """A function with the decorator is enough; an entry point that cannot be loaded is named."""
    (tmp_path / "other_tools.py").write_text(
        "from textassay.tools import tool\n\n"
        "@tool(description='Share of capital letters, 0 to 1.', scale=(0, 1))\n"
        "def shouting(example):\n"
        "    return sum(c.isupper() for c in example.output) / len(example.output)\n"
    )
    info = tmp_path / "other_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-tools\nVersion: 1.0\n")
    entries = info / "entry_points.txt"
    entries.write_text("[textassay.tools]\nshouting = other_tools:shouting\n")
    found = python(
        f"""
        import asyncio, importlib
        import textassay.tools as t
        from textassay.runtime.errors import ConfigurationError
        from textassay.runtime.messages import Example
        print([d.kind for d in t.describe_all() if d.kind == "shouting"])
        (tool,) = t.build(["loud=shouting"])
        score = asyncio.run(tool.score(Example(output="ABcd")))
        print(score.aspect, score.value, score.how, score.scale)
        with open({str(entries)!r}, "a") as file:
            file.write("broken = other_tools:nothing\\n")
        importlib.invalidate_caches()
        try:
            t.build(["broken"])
        except ConfigurationError as error:
            print(error)
        """,
        path=[tmp_path],
    )
    assert found.split("\n")[:2] == ["['shouting']", "loud 0.5 tool (0.0, 1.0)"]
    assert "the tool 'broken' of other-tools cannot be loaded" in found
