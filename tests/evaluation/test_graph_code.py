"""A changed rule in a graph of one's own is another graph: its signature, and no resuming."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from functools import partial, wraps
from pathlib import Path

import pytest

import textassay
from textassay import Aspect, Assignment, Example, Graph, Node, Score, constant, each
from textassay.evaluation.graph_code import code_digests
from textassay.methods.library import tasks
from textassay.runtime.calls.sharing import once
from textassay.runtime.errors import RunFolderError

BREVITY = Aspect(name="brevity", definition="whether nothing could be left out.", scale=(1, 5))
ROWS = [{"id": f"e{i}", "output": "word " * (i + 1)} for i in range(3)]
HELPERS = """
LEAST = {least}

def limited(value):
    return max(LEAST, value{more})
"""
# each makes `rule`, which depends on X in one way
KINDS = {
    "a constant in the code": """
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, X)
""",
    "a default": """
async def rule(example: Example, aspect: Aspect, value: float = X) -> Score:
    return made(example, aspect, value)
""",
    "a keyword default": """
async def rule(example: Example, aspect: Aspect, *, value: float = X) -> Score:
    return made(example, aspect, value)
""",
    "a closure": """
def make(value):
    async def rule(example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, value)
    return rule
rule = make(X)
""",
    "a list in a closure": """
def make(weights):
    async def rule(example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, weights["all"][0])
    return rule
rule = make({"all": [X, 2]})
""",
    "a global value": """
WEIGHT = X
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, WEIGHT)
""",
    "a helper": """
def helper():
    return X
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, helper())
""",
    "a helper of a helper, and one that calls itself": """
def deep(n):
    return X if n == 0 else deep(n - 1)
def helper():
    return deep(2)
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, helper())
""",
    "a lambda": """
pick = lambda: X
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, pick())
""",
    "code in a comprehension": """
def helper(n):
    return n + X
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, [helper(n) for n in (0,)][0])
""",
    "a partial": """
async def given(example: Example, aspect: Aspect, value: float) -> Score:
    return made(example, aspect, value)
rule = partial(given, value=X)
""",
    "an attribute": """
class Rule:
    def __init__(self, value):
        self.value = value
    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.value)
rule = Rule(X)
""",
    "a class of one's own of a built-in one": """
class Weights(dict):
    def __missing__(self, key):
        return X
WEIGHTS = Weights()
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, WEIGHTS["a"])
""",
    "a number of a class of one's own": """
class Weight(float):
    def doubled(self):
        return X * self
WEIGHT = Weight(1)
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, WEIGHT.doubled())
""",
    "the default of a dictionary": """
from collections import defaultdict
WEIGHTS = defaultdict(lambda: X)
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, WEIGHTS["a"])
""",
    "a slot": """
class Rule:
    __slots__ = ("value",)
    def __init__(self, value):
        self.value = value
    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.value)
rule = Rule(X)
""",
    "an attribute of the class": """
class Rule:
    value = X
    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.value)
rule = Rule()
""",
    "a method": """
class Rule:
    def value(self):
        return X
    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.value())
rule = Rule()
""",
    "a method of a base class": """
class Base:
    @property
    def value(self):
        return X
class Rule(Base):
    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.value)
rule = Rule()
""",
    "a bound method": """
class Rules:
    def __init__(self, value):
        self.value = value
    async def rule(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.value)
rule = Rules(X).rule
""",
    "an object of an object": """
class Weights:
    def __init__(self, value):
        self.values, self.owner = {"a": value}, self
class Rule:
    def __init__(self, weights):
        self.weights = weights
    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, self.weights.values["a"])
rule = Rule(Weights(X))
""",
    "what is called once": """
async def given(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, X)
rule = once(given)
""",
    "what a decorator wraps": """
def twice(function):
    @wraps(function)
    async def inner(example: Example, aspect: Aspect) -> Score:
        return await function(example, aspect)
    return inner
@twice
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, X)
""",
    "a decorator": """
def plus(function):
    @wraps(function)
    async def inner(example: Example, aspect: Aspect) -> Score:
        return made(example, aspect, X)
    return inner
@plus
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, 1)
""",
    "an array": """
import numpy
WEIGHTS = numpy.array([X, 2.0])
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, float(WEIGHTS[0]))
""",
}


def made(example: Example, aspect: Aspect, value: float) -> Score:
    return Score(
        id=example.id, aspect=aspect.label, value=value, scale=aspect.scale, how="tool"
    )  # unsigned


def rule_of(code: str, value: object):
    names = {"Example": Example, "Aspect": Aspect, "Score": Score, "made": made,
             "partial": partial, "wraps": wraps, "once": once,
             "__name__": "rules_of_a_test"}  # fmt: skip
    exec(code.replace("X", repr(value)), names)
    return names["rule"]


def graph_of(rule, **wires) -> Graph:
    nodes = [
        Node("scores", rule, example="input.example", aspect=each("input.aspects"), **wires),
    ]
    return Graph("brevity", input=Assignment, nodes=nodes, output="scores")


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_that_is_another_in_any_way_has_another_digest(kind):
    one, same, other = (code_digests(graph_of(rule_of(KINDS[kind], x))) for x in (2, 2, 3))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    "value",
    [
        *("datetime.timedelta(X)", "datetime.date(2026, X, 1)", "decimal.Decimal(X)"),
        *("fractions.Fraction(1, X)", "range(X)", "slice(X)", "collections.deque([1, X])"),
        *("collections.Counter('a' * X)", "types.SimpleNamespace(weights={'a': X})"),
        *("types.MappingProxyType({'a': X})", "operator.itemgetter(X)", "pandas.Series([1, X])"),
        *("numpy.float64(X)", "re.compile('a' * X)", "enum.Enum('Grade', {'TOP': X}).TOP"),
        *("collections.namedtuple('Weights', 'a')(X)", "string.Template('a' * X)"),
        "jinja2.Template('{{ text }} is ' + 'a' * X)",
        *("re.compile('a' * 300 + 'b' * X)", "numpy.array(['a' * X, None], dtype=object)"),
        *("numpy.array([1, X])", "array.array('d', [1, X])", "numpy.arange(5000) // (2000 + X)"),
        "pandas.DataFrame({'weight': [0] * 100 + [X] + [0] * 100})",
        "pandas.DataFrame({'weight': [1, 2]}, index=['a', 'b' * X])",
    ],
)
def test_so_has_a_rule_that_uses_another_value_of_an_installed_class(value):
    code = f"""
import array, collections, datetime, decimal, enum, fractions, jinja2, numpy, operator, pandas, re
import string, types
VALUE = {value}
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, len(str(VALUE)))
"""
    two, same, three = (code_digests(graph_of(rule_of(code, x))) for x in (2, 2, 3))
    assert two == same != three


@pytest.mark.parametrize(
    "value",
    [
        *("itertools.count()", "threading.Lock()", "iter([1])", "object()", "asyncio.Queue()"),
        "logging.getLogger('rules')",
        "os.environ",
    ],
)
def test_the_state_of_a_helper_is_not_in_the_digest(value, monkeypatch):
    """It differs from process to process, and in one process after a run."""
    code = f"""
import asyncio, itertools, logging, os, threading
HELPER = {value}
async def rule(example: Example, aspect: Aspect) -> Score:
    return made(example, aspect, id(HELPER))
"""
    rule, again = rule_of(code, 1), rule_of(code, 1)
    before = code_digests(graph_of(rule))
    if value in ("itertools.count()", "iter([1])"):
        next(rule.__globals__["HELPER"])
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(logging.getLogger("rules"), "level", logging.CRITICAL)
    assert before == code_digests(graph_of(rule)) == code_digests(graph_of(again))


def test_so_has_a_constant_on_a_wire():
    async def rule(example: Example, aspect: Aspect, value: float) -> Score:
        return made(example, aspect, value)

    two, again, three = (code_digests(graph_of(rule, value=constant(x))) for x in (2.0, 2.0, 3.0))
    assert two == again != three


def test_so_has_a_rule_inside_of_a_graph():
    def outer(value: int) -> dict[str, str]:
        inner = graph_of(rule_of(KINDS["a global value"], value))
        node = Node("all", inner, input="input")
        return code_digests(Graph("outer", input=Assignment, nodes=[node], output="all"))

    assert outer(2) == outer(2) != outer(3)


@pytest.mark.parametrize(
    ("least", "more"), [(1, ""), (2, ""), (1, " + 1")], ids=["same", "constant", "code"]
)
def test_code_in_files_beside_it_counts_and_is_equal_in_every_process(tmp_path, least, more):
    """Whatever the order of sets in that process is."""
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
import helpers
from helpers import limited
from pydantic import BaseModel
from textassay import Aspect, Assignment, Example, Graph, Node, Score, each
from textassay.evaluation.graph_code import code_digests
WORDS = {{"a", "b", "c", "d"}}
PAIRS = {{frozenset({{"a", one}}): one for one in "bcdefgh"}} | {{lambda: 1: 2}}
class Weights(BaseModel):
    first: int = 0
WEIGHTS = Weights()
async def rule(example: Example, aspect: Aspect) -> Score:
    value = limited(len(WORDS)) + len(PAIRS) + helpers.limited(1) + WEIGHTS.first
    return Score(id=example.id, aspect=aspect.label, value=value, scale=aspect.scale, how="tool")
nodes = [Node("scores", rule, example="input.example", aspect=each("input.aspects"))]
graph = Graph("brevity", input=Assignment, nodes=nodes, output="scores")
print(code_digests(graph)["scores"])
"""
    path = tmp_path / "rules.py"
    path.write_text(script, encoding="utf-8")

    def digest(folder: Path, seed: int) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            [sys.executable, str(path)], env=environment, capture_output=True, check=True, text=True
        )
        return run.stdout

    (tmp_path / "helpers.py").write_text(HELPERS.format(least=1, more=""), encoding="utf-8")
    before = digest(tmp_path, 1)
    (tmp_path / "helpers.py").write_text(HELPERS.format(least=least, more=more), encoding="utf-8")
    assert (digest(tmp_path, 2) == before) == ((least, more) == (1, ""))


@pytest.mark.parametrize(
    "uses",
    [
        "import own_rules.words as words; value = words.LEAST",
        "from own_rules.words import LEAST as value",
        "value = (lambda: own_rules.words.LEAST)()",
        "value = module.LEAST",
    ],
    ids=["imported as it runs", "a name imported as it runs", "a package", "in a closure"],
)
def test_modules_beside_it_count_however_code_reaches_them(uses, tmp_path, monkeypatch):
    """The package is a folder without `__init__.py`, and another module is not installed."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "own_rules" / "words.py"
    file.parent.mkdir()
    code = f"""
import own_rules.words
def make(module):
    async def rule(example: Example, aspect: Aspect) -> Score:
        try:
            import colorsys, not_installed
        except ImportError:
            {uses}
        return Score(id=example.id, aspect=aspect.label, value=value, how="tool")
    return rule
rule = make(own_rules.words)
"""

    def digest(least: int) -> dict[str, str]:
        file.write_text(f"LEAST = {least:<{least}}", encoding="utf-8")  # Python compares lengths
        for name in ("own_rules", "own_rules.words"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return code_digests(graph_of(rule_of(code, None)))

    assert digest(1) == digest(1) != digest(2)


@pytest.mark.parametrize(
    "content",
    ["import os; KEY = os.environ['NO_SUCH']", "raise SystemExit(3)", "def (", "\0", None],
    ids=["raises", "exits", "is no code", "is no text", "is missing"],
)
def test_a_module_that_a_rule_may_import_is_read_and_not_executed(content, tmp_path, monkeypatch):
    """Modules that it imports count as well: from its package, and one another."""
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "own_optional"
    package.mkdir()
    (package / "__init__.py").write_text("from .first import *\nraise ValueError", encoding="utf-8")
    (package / "first.py").write_text("from . import second\nraise ValueError", encoding="utf-8")
    if content is not None:
        (package / "other.py").write_text(content, encoding="utf-8")
    code = """
async def rule(example: Example, aspect: Aspect) -> Score:
    if not example.output:
        from own_optional import other
    return made(example, aspect, 1)
"""

    def digest(value: int) -> dict[str, str]:
        (package / "second.py").write_text(f"import own_optional; X = {value}", encoding="utf-8")
        return code_digests(graph_of(rule_of(code, None)))

    assert digest(1) == digest(1) != digest(2)
    assert "own_optional" not in sys.modules


async def test_a_run_is_not_resumed_with_another_rule_and_its_scores_are_signed(tmp_path):
    async def judged(value: int, **out):
        graph = graph_of(rule_of(KINDS["a closure"], value))
        return await textassay.evaluate(ROWS, method=graph, aspects=[BREVITY], **out)

    first = await judged(2, out=tmp_path / "run")
    again = await judged(2, out=tmp_path / "run", resume=True)
    assert [score.value for score in again] == [2, 2, 2]
    with pytest.raises(RunFolderError, match="the code of node 'scores', or a value that it uses"):
        await judged(3, out=tmp_path / "run", resume=True)
    other = await judged(3)
    [before] = {score.signature for score in first}
    [after] = {score.signature for score in other}
    assert before.startswith("method:brevity|graph:")
    assert before != after


async def test_the_manifest_names_the_models_that_an_own_graph_holds(tmp_path):
    judge = textassay.ScriptedModel(lambda request: "Score: 4", name="my/judge")
    scorer = textassay.agents.Scorer(
        textassay.agents.Ask(judge, "llm_score", tasks.load("summarization"))
    )
    await textassay.evaluate(ROWS, method=graph_of(scorer), aspects=["fluency"], out=tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["method"]["models"] == ["my/judge"]
