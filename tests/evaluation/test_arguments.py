"""Arguments of the public functions: shown, checked, named in errors, never without effect."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import textassay
from tests.cli.harness import textassay as command
from tests.cli.harness import write_examples
from textassay import connect, evaluate, evaluate_sync, stream
from textassay.cli.exits import parameters, with_flags
from textassay.evaluation.defaults import check_keys
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.settings import Settings

ROWS = [{"id": f"x{i}", "output": f"Text {i}."} for i in range(3)]
DOORS = (evaluate, evaluate_sync, stream)


def judge():
    """A model that always gives a 4, and counts."""
    return ScriptedModel(lambda request: "Rating: 4")


def test_every_parameter_is_shown_and_documented():
    for door in DOORS:
        names = list(inspect.signature(door).parameters)
        assert names[:4] == ["examples", "method", "model", "task"]
        of_evaluate = ("progress", "cluster", "workers")
        own = [n for n in inspect.signature(evaluate).parameters if n not in of_evaluate]
        assert [name for name in names if name not in of_evaluate] == own
    for name in inspect.signature(evaluate).parameters:
        assert f"\n        {name}: " in inspect.getsource(inspect.unwrap(evaluate)), name
    shown = inspect.signature(connect).parameters
    assert set(shown) == {"model", "settings", "budget", *Settings.model_fields}
    assert all(f"\n    {name}: " in connect.__doc__ for name in Settings.model_fields)
    assert "**overrides" not in connect.__doc__
    assert shown["rpm"].default is None
    assert shown["concurrency"].default == 64


def test_the_async_doors_stay_what_they_are():
    assert inspect.iscoroutinefunction(evaluate)
    assert not inspect.iscoroutinefunction(evaluate_sync)


async def test_an_unknown_keyword_is_refused_with_the_nearest_name():
    model = judge()
    expected = {"method": "llm-score", "model": model, "apsects": ["coherence"]}
    with pytest.raises(
        UnknownName, match="unknown parameter of evaluate 'apsects'; did you mean 'aspects'"
    ):
        await evaluate(ROWS, **expected)
    with pytest.raises(TypeError, match="did you mean 'aspects'"):
        evaluate_sync(ROWS, **expected)
    with pytest.raises(TypeError, match="unknown parameter of stream"):
        stream(ROWS, **expected)
    with pytest.raises(UnknownName, match=r"'max_cost'; known: settings=Settings\(max_cost=...\)"):
        await evaluate(ROWS, method="llm-score", model=model, max_cost=0.001)
    assert model.requests == []


@pytest.mark.parametrize("model", [["direct/a", "direct/b"], ("direct/a",), 5, {"juror1": 5}])
async def test_arguments_that_are_not_a_model_are_refused(model):
    with pytest.raises(ConfigurationError, match="a mapping of these by role"):
        await evaluate(ROWS, method="jury", aspects="fluency", model=model)


def test_connect_refuses_an_unknown_setting():
    with pytest.raises(UnknownName, match="did you mean 'max_cost'"):
        connect("direct/x", api_base="http://127.0.0.1:9/v1", max_cots=1)


async def test_a_model_without_a_cache_needs_no_opening():
    model = connect(judge(), cache=False)
    wanted = {"method": "llm-score", "aspects": "fluency"}
    assert len((await evaluate(ROWS, **wanted, model=model)).scores) == 3


@pytest.mark.parametrize("cache", [None, False])
def test_a_key_is_missed_at_once_unless_a_cache_may_have_all_answers(cache, tmp_path, monkeypatch):
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="set MISTRAL_API_KEY"):
        check_keys({"": "mistral/mistral-small"}, Settings(cache=cache))
    check_keys({"": "mistral/mistral-small"}, Settings(cache=tmp_path))


async def test_settings_beside_a_connected_model_are_refused(mock_server):
    server, wanted = await mock_server(), {"method": "llm-score", "aspects": "fluency"}
    async with connect("direct/mock", api_base=server.url) as model:
        words = r"max_cost=\.\.\., rpm=\.\.\. to textassay.connect"
        with pytest.raises(ConfigurationError, match=words):
            await evaluate(ROWS, **wanted, model=model, settings=Settings(max_cost=0.0001, rpm=1))
        assert server.counters.requests == 0
        run = await evaluate(ROWS, **wanted, model=model, settings=Settings(cache=False))
    assert len(run.scores) == 3


async def test_a_bare_model_may_be_asked_at_a_concurrency():
    """It has no limiter, so that the setting is the number of examples in progress."""
    expected = {"method": "llm-score", "aspects": "fluency", "model": judge()}
    assert len((await evaluate(ROWS, settings=Settings(concurrency=2), **expected)).scores) == 3
    with pytest.raises(ConfigurationError, match="no effect"):
        await evaluate(ROWS, settings=Settings(attempts=2), **expected)


async def test_resume_without_a_folder_is_refused():
    with pytest.raises(ConfigurationError, match="resume="):
        await evaluate(ROWS, method="llm-score", model=judge(), resume=True)


async def test_one_name_is_one_aspect_and_one_tool():
    run = await evaluate(ROWS, method="llm-score", model=judge(), aspects="coherence")
    assert {score.aspect for score in run} == {"coherence"}
    tools = await evaluate([{"output": "a b", "references": ["a b"]}], method="tools", tools="chrf")
    assert {score.aspect for score in tools} == {"chrf"}


async def test_progress_can_be_watched(capsys):
    """By a function, to the last state; as a line; and not at all, as in a pipe."""
    seen = []
    expected = {"method": "llm-score", "aspects": "coherence"}
    await evaluate(ROWS, model=judge(), progress=seen.append, **expected)
    assert (seen[-1].done, seen[-1].total) == (3, 3)
    await evaluate(ROWS, model=judge(), **expected)
    assert capsys.readouterr().err == ""
    await evaluate(ROWS, model=judge(), progress=True, **expected)
    assert "3/3" in capsys.readouterr().err


async def test_a_fault_of_the_watcher_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        await evaluate(ROWS, method="llm-score", model=judge(), progress=lambda now: 1 / 0)


@pytest.mark.parametrize(
    ("expected", "here", "typed"),
    [
        ({"model": "direct/x"}, "needs api_base=,", "needs --api-base,"),
        ({}, "with model=NAME or model={'scorer': NAME}", "--model NAME or --model scorer=NAME"),
    ],
)
async def test_each_reads_its_own_names(tmp_path, expected, here, typed):
    with pytest.raises(ConfigurationError) as refused:
        await evaluate([{"output": "x"}], method="llm-score", **expected)
    assert here in str(refused.value)
    assert "--" not in str(refused.value)
    flags = [part for name, value in expected.items() for part in (f"--{name}", value)]
    data = write_examples(tmp_path / "data.jsonl", 1)
    asked = ("score", data, "--method", "llm-score", *flags, "--dry-run")
    shown = (await asyncio.to_thread(command, *asked)).err  # it has a loop of its own
    assert typed in shown
    assert here not in shown


def test_a_key_that_is_not_set_is_named_as_the_parameter():
    with pytest.raises(ConfigurationError, match=r"^api_key_env= names NO_SUCH_KEY"):
        connect("direct/x", api_base="http://127.0.0.1:9/v1", api_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("max_cost= cannot be enforced", "--max-cost cannot be enforced"),
        ("give price=(IN, OUT), or", "give --price IN,OUT, or"),
        ("or pass chosen=True", "or pass --labels chosen"),
        ("a limit (timeout=SECONDS)", "a limit (--set timeout=SECONDS)"),
        ("leave out seed=: it", "leave out --seed: it"),
        ("leave out batch=True.", "leave out --batch."),
        ("use n=20 or tools=nli,bleurt", "use --n 20 or --tools nli,bleurt"),
        ("with cache='/tmp/a b'", 'with --cache "/tmp/a b"'),
        ("declare missing=('(none)',)", "declare --missing (none)"),
        ("options={'form': 'letters'}", "--set form=letters"),
        ("options={'depth': 2}?", "--set depth=2?"),
        ("options={'ranges': {'bleu': [0, 1]}}", "--set ranges='{bleu = [0, 1]}'"),
        ('fields={NAME: "meta"} or so', "--field NAME=meta or so"),
        ("models={'a': NAME, 'b': NAME}", "--model a=NAME --model b=NAME"),
        ("--price=3, price==3 and /data/seed=3/x", None),
        ("leave steps=none and 'seed=3', or --set n=2", None),
        ("answered 400: “use n=20” (use n=20)", "answered 400: “use n=20” (use --n 20)"),
        ("cut off: “ max_cost=5 and seed=", None),
        ("said ' n=20' (\"it's n=2\"), so n=20", "said ' n=20' (\"it's n=2\"), so --n 20"),
        ("unclosed options={'a: 1", "unclosed --set {'a: 1"),
        ("no Python: price=(1 2)", None),
    ],
)
def test_the_command_line_prints_flags_for_parameters(python, typed):
    assert with_flags(python) == (typed or python)


@given(st.text())
def test_texts_without_parameters_are_left_alone(text):
    named = any(f"{name}=" in text for name in parameters())
    assert named or with_flags(text) == text


@given(st.sampled_from(sorted(parameters())), st.text("'\"(){}[],:=* ab\\\0", max_size=30))
def test_any_text_may_follow_a_parameter(name, text):
    assert with_flags(f"{name}={text}")


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# of other programs, and commands that are quoted whole
OTHERS = re.compile(
    r"pip install|force-reinstall|xcode-select|inspect log"
    r"|textassay (score|resume|calibrate|merge|draft)"
    r"|--textassay|^ --revision $|^--of-"
)
PACKAGE = Path(textassay.__file__).parent
COMMAND_LINE = ("cli", "demo", "pytest_plugin", "checking")


def texts_of(path):
    """The strings of a module except docstrings, with the parts of a message joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings, of attributes too
    for node in ast.walk(tree):
        if id(node) in documented:
            continue
        if isinstance(node, ast.JoinedStr):
            documented |= {id(part) for part in node.values}
            yield "".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_library_names_no_flags():
    """Messages name parameters as Python does; the command line turns them into flags."""
    paths = [
        p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in COMMAND_LINE
    ]
    named = [
        (path.name, text)
        for path in paths
        # reading is faster than parsing, and few modules have anything like a flag
        if "--" in path.read_text(encoding="utf-8")
        for text in texts_of(path)
        if FLAG.search(text) and not OTHERS.search(text)
    ]
    assert not named


@pytest.mark.parametrize(
    ("name", "meant"),
    [("api_bas", "api_base"), ("max_cots", "max_cost"), ("max-cost", "max_cost"), ("zzz", None)],
)
def test_a_misspelled_setting_names_the_nearest(name, meant):
    with pytest.raises(UnknownName, match=f"unknown parameter of Settings '{name}'") as caught:
        Settings(**{name: 1})
    assert (f"did you mean {meant!r}?" in str(caught.value)) is (meant is not None)
