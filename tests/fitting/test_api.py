"""`textassay.fit`: what the command does, in Python, with arguments that are shown and checked."""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import pytest

import textassay
from tests.cli.harness import textassay as command
from tests.fitting.made_texts import Dated, write
from tests.methods.judging import CHOICES
from textassay import Aspect, Fit, Settings, evaluate, fit, fit_sync
from textassay.fitting.request import KINDS, fit_request
from textassay.runtime.errors import (
    AuthenticationFailed,
    ConfigurationError,
    RunFolderError,
    UnknownName,
)

FEW = {"method": "rubric", "task": "summarization", "aggregator": "ridge", "labels": 30}


def rated(n=60, seed=0):
    """Rows with two metrics, one of which people follow."""
    rng = np.random.default_rng(seed)
    good, noise = rng.normal(size=n), rng.normal(size=n)
    return [
        {"id": f"r{i}", "output": f"Text {i}" + " more" * round(4 + good[i]), "group": f"g{i // 2}",
         "human": {"fluency": float(np.clip(3 + good[i], 1, 5))},
         "metrics": {"good": good[i] + 0.3 * rng.normal(), "noise": noise[i]}}
        for i in range(n)
    ]  # fmt: skip


def test_every_parameter_is_shown_documented_and_passed_on():
    """In both functions, and none is lost on the way to the request."""
    names = list(inspect.signature(fit).parameters)
    assert names == list(inspect.signature(fit_sync).parameters)
    fields = {name for kind in KINDS.values() for name in kind.model_fields}
    assert {*names} - {"examples", "progress"} == {"method", *fields}
    source = inspect.getsource(inspect.unwrap(fit))
    assert all(f"\n        {name}: " in source for name in names)
    assert inspect.iscoroutinefunction(fit)
    defaults = {name: one.default for name, one in inspect.signature(fit).parameters.items()}
    del defaults["examples"], defaults["progress"]
    assert fit_request(**defaults) == fit_request()


async def test_metrics_in_memory_without_a_folder(tmp_path):
    """Nothing is written until it is saved; the result shows itself, and is read again.

    Meanwhile the event loop goes on, as a web server has to.
    """
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(tick())
    found = await fit(rated(), features="*", aggregator="ridge")
    task.cancel()
    assert len(ticks) > 2
    assert list(tmp_path.iterdir()) == []
    assert found.evaluator.features == ("good", "noise")
    assert "ridge over 2 features, held-out Pearson 0.9" in repr(found)
    shown = found._repr_html_()
    row = found.report["held_out"]["aspects"]["fluency"]["agreement"]["evaluator"]
    low, high = row["ci"]["pearson"]
    assert f"{row['pearson']:.3f} [{low:.3f}, {high:.3f}]" in shown
    assert shown.index("<td>good</td>") < shown.index("<td>noise</td>")
    with pytest.raises(ConfigurationError, match="no folder"):
        await evaluate(rated(4), method=found)
    assert found.save(tmp_path / "ev") is None
    assert found.folder == tmp_path / "ev"
    run = await evaluate(rated(4), method=found)
    assert {score.outcome for score in run} == {"scored"}
    again = Fit.load(tmp_path / "ev")
    assert (again.report, again.evaluator) == (found.report, found.evaluator)
    assert again.text == (tmp_path / "ev" / "report.txt").read_text(encoding="utf-8")
    run = await evaluate(rated(4, seed=1), method=again)
    assert {score.outcome for score in run} == {"scored"}
    shutil.rmtree(tmp_path / "ev")
    with pytest.raises(ConfigurationError, match="no longer contains it; save it again"):
        await evaluate(rated(4), method=found)


class Begun(ThreadPoolExecutor):
    """Returns from `submit` once the work has begun, so that it is too late to withdraw it."""

    def submit(self, work, /, *args, **keywords):
        begun = threading.Event()

        def do():
            begun.set()
            return work(*args, **keywords)

        future = super().submit(do)
        begun.wait()
        return future


def test_a_canceled_fit_writes_nothing(tmp_path):
    async def canceled():
        with Begun(1) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            call = fit(rated(), features="*", aggregator="ridge", out=tmp_path / "ev")
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(canceled())
    assert list(tmp_path.iterdir()) == []


def test_fit_sync_learns_where_it_is_called(tmp_path):
    def interrupt(frame, event, argument):
        if event == "call" and frame.f_code is as_completed.__code__:
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_sync(rated(), features="*", aggregator="ridge", out=tmp_path / "ev")
    finally:
        sys.setprofile(None)
    assert list(tmp_path.iterdir()) == []


class Table:
    """Rows that only the thread which opened them may read, as those of a database cursor."""

    def __init__(self):
        self.thread = threading.get_ident()

    def __iter__(self):
        assert threading.get_ident() == self.thread
        yield from rated()


async def test_examples_are_read_where_fit_is_called():
    found = await fit(Table(), features="*", aggregator="ridge")
    assert found.report["data"]["rows"] == 60
    also = await asyncio.to_thread(lambda: fit_sync(Table(), features="*", aggregator="ridge"))
    assert also.report["held_out"] == found.report["held_out"]
    with pytest.raises(ConfigurationError, match=r"write `await textassay.fit\(...\)` instead"):
        fit_sync(rated(), features="*")


def test_a_folder_with_an_invalid_report_is_refused(tmp_path):
    fit_sync(rated(), features="*", aggregator="ridge", train_fraction=0.5, out=tmp_path / "ev")
    says = r"report\.json (is not a report of fit|cannot be read)"
    for content in ("{}", "[]", "null", "3", '{"held_out": 3}', "[" * 100_000):
        (tmp_path / "ev" / "report.json").write_text(content)
        with pytest.raises(RunFolderError, match=says):
            Fit.load(tmp_path / "ev")


def test_aspects_and_names_in_other_forms():
    """An `Aspect` counts by its name, as for `evaluate`, and what yields names is read once."""
    found = fit_sync(rated(), features=(name for name in ("good", "noise")), aggregator="ridge",
                     aspects=[Aspect(name="fluency", definition="It reads well.")],
                     seed=np.int64(0), progress=False)  # fmt: skip
    assert [aspect.name for aspect in found.evaluator.aspects] == ["fluency"]
    assert found.evaluator.features == ("good", "noise")
    assert json.loads(json.dumps(found.report["split"]))["seed"] == 0


def test_the_command_and_python_learn_the_same(tmp_path):
    data = write(tmp_path / "data.jsonl", rated())
    flags = ("--features", "good,noise", "--train-fraction", 0.4, "--scale", "fluency=0,6")
    done = command("fit", data, *flags, "--aggregator", "ridge", "--out", tmp_path / "typed")
    assert done.code == 0, done.err
    found = fit_sync(data, features=["good", "noise"], train_fraction=0.4, aggregator="ridge",
                     scales={"fluency": (0, 6)}, out=tmp_path / "called")  # fmt: skip
    typed, called = (
        json.loads((tmp_path / name / "report.json").read_text()) for name in ("typed", "called")
    )
    assert typed.pop("created")
    assert called.pop("created")
    assert typed == called
    assert found.folder == tmp_path / "called"


async def test_runs_in_memory_are_sources_by_name(tmp_path):
    """With two runs of the same aspect, names identify the scores; without a folder there
    is none."""
    rows = rated()
    runs = [
        await evaluate(rows, method="tools", tools=f"length?unit={unit}")
        for unit in ("words", "characters")
    ]
    with pytest.raises(ConfigurationError, match=r"name them with scores=\{'NAME': FILE"):
        await fit(rows, scores=runs, aggregator="ridge")
    found = await fit(rows, scores={"a": runs[0], "b": runs[1]}, aggregator="ridge")
    assert found.evaluator.features == ("a/length", "b/length")
    found.save(tmp_path / "ev")
    new = rated(4, seed=1)
    for name in ("a", "b"):
        scores = [{"id": row["id"], "aspect": "length", "value": 9} for row in new]
        write(tmp_path / f"{name}.jsonl", scores)
    files = [f"{name}={tmp_path / name}.jsonl" for name in ("a", "b")]
    run = await evaluate(new, method=found, options={"scores": files})
    assert {score.outcome for score in run} == {"scored"}


async def test_a_rubric_that_was_stopped_continues_and_is_applied(tmp_path):
    dated, out, seen = Dated(90), tmp_path / "ev", []
    answers = [AuthenticationFailed("the key was revoked")]

    def failing(request):
        return answers.pop() if len(broken.requests) == 100 else dated.answer(request)

    broken = textassay.ScriptedModel(failing, name="scripted")
    with pytest.raises(AuthenticationFailed) as stopped:
        await fit(dated.rows, model=broken, out=out, **FEW)
    note = "finished work is kept; call fit with the same arguments to continue"
    assert stopped.value.__notes__ == [note]
    with pytest.raises(RunFolderError, match="contains another alignment"):
        await fit(dated.rows, model=dated.model(), out=out, **FEW | {"labels": 20})
    model = dated.model()
    found = await fit(dated.rows, model=model, out=out, progress=seen.append, **FEW)
    assert not {r.text for r in broken.requests[:90]} & {r.text for r in model.requests}
    first = {row["criterion"] for row in found.report["rubric"][0]["criteria"]}
    assert "coherence/mentions-a-date" in first
    assert (bool(seen), found.folder, found.unscored) == (True, out, {})
    run = await evaluate(dated.rows[:3], method=found, model=dated.model())
    assert {score.outcome for score in run} == {"scored"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": "*", "labels": 30}, r"labels= needs method='hd-eval' or 'rubric'"),
        ({"features": "*", "limit": 30}, "limit= needs method="),
        ({"features": "*", "model": "x/y"}, "model= needs method="),
        ({"method": "rubric"}, "fit by rubric needs model="),
        ({"method": "rubric", "model": "x/y", "features": "*"}, "features= and scores= from"),
        ({"method": "rubric", "model": "x/y", "keep": 3}, "keep= has no effect with method='rub"),
        ({"method": "hd-eval", "model": "x/y", "rounds": 3}, "rounds= has no effect"),
        ({"method": "hd-eval", "model": "x/y", "new_systems": True}, "new_systems= is for"),
        ({}, "features=NAME"),
        ({"features": "*", "repeats": 3}, "repeats= is for the curves of report='full'"),
        ({"features": "*", "progress": True}, "progress= needs method="),
        ({"features": "*", "seed": -1}, "seed=: .* greater than or equal to 0 .given: -1"),
        ({"features": "*", "train_fraction": "half"}, "train_fraction=: .* number"),
        ({"features": "*", "test_fraction": [1]}, "test_fraction=: .* number"),
        ({"features": 3}, "features=: .*tuple"),
        ({"features": [3]}, "features=: .*string .given: 3"),
        ({"scores": 3}, "scores=: must be a run"),
        ({"scores": [3]}, "scores=: must contain runs"),
        ({"scores": {1: "file"}}, "scores=: must map names, not 1"),
        ({"features": "*", "aggregator": 3}, "aggregator=: .*tuple"),
        ({"features": "*", "aggregator": []}, "aggregator= is empty"),
        ({"features": "*", "aspects": []}, "aspects= is empty"),
        ({"features": "*", "scales": {"fluency": (1,)}}, "scale of 'fluency' must be its lowest"),
        ({"features": "*", "scales": {"fluency": (5, 1)}}, "scale of 'fluency' must be its lowest"),
        ({"features": "*", "scales": [1, 5]}, "scales=: must be like {'ASPECT'"),
        ({"features": "*", "scales": (5, 1)}, "scales=: must be like {'ASPECT'"),
        ({"features": "*", "out": ""}, "out=: must be the path of a folder .given: ''"),
        ({"features": "*", "fields": "a=b"}, "fields=: .*dictionary"),
        ({"method": "rubric", "model": "x/y", "labels": "many"}, "labels=: .*integer"),
        ({"method": "rubric", "model": "x/y", "labels": 9}, "labels=: .* equal to 10 .given: 9"),
        ({"method": "rubric", "model": "x/y", "children": 0}, "children=: .* equal to 1 .given: 0"),
        ({"method": "rubric", "model": "x/y", "limit": -1}, "limit=: .* equal to 1 .given: -1"),
        ({"method": "rubric", "model": "x/y", "limit": "x"}, "limit=: .*integer"),
        ({"method": "rubric", "model": "x/y", "options": "n=5"}, "options=: .*dictionary"),
        ({"method": "rubric", "model": "x/y", "settings": "fast"}, "settings=: .*Settings"),
    ],
)
async def test_what_has_no_effect_is_refused_in_the_words_of_python(given, message):
    with pytest.raises(ConfigurationError, match=message):
        await fit(rated(8), **given)


async def test_unknown_names_and_lost_settings_are_refused(tmp_path):
    with pytest.raises(UnknownName, match="method of fit 'hd_eval'; did you mean 'hd-ev"):
        await fit(rated(), method="hd_eval", model="x/y")
    with pytest.raises(TypeError, match="unknown parameter of fit 'aggregators'"):
        await fit(rated(), aggregators="ridge")
    with pytest.raises(UnknownName, match="aggregator 'rigde'; did you mean 'ridge'"):
        await fit(rated(), features="*", aggregator="rigde")
    dated = Dated(90)
    tree = {"method": "hd-eval", "model": dated.model(), "task": "summarization",
            "out": tmp_path / "ev", "aggregator": "ridge"}  # fmt: skip
    with pytest.raises(UnknownName, match="saliency 'shaply'; did you mean 'shapley'"):
        await fit(dated.rows, saliency="shaply", **tree)
    with pytest.raises(UnknownName, match="noise 'stopp'; did you mean 'stop'"):
        await fit(dated.rows, noise="stopp", **tree)
    with pytest.raises(
        ConfigurationError, match="tree=FILE, or rate the first layer alone with layers=1, or"
    ):
        await fit(dated.rows, options={"profile": CHOICES}, **tree)
    call = {"model": dated.model(), "out": tmp_path / "ev", **FEW}
    with pytest.raises(ConfigurationError, match="no effect on a model that is connected"):
        await fit(dated.rows, settings=Settings(max_cost=1), **call)
    with pytest.raises(
        ConfigurationError, match="cannot write criteria: learn from recorded"
    ) as no:
        await fit(dated.rows, options={"profile": CHOICES}, **call)
    assert not hasattr(no.value, "__notes__")
    with pytest.raises(ConfigurationError, match="fit needs out="):
        await fit(dated.rows, **call | {"out": None})
    with pytest.raises(ConfigurationError, match=r"write `await textassay.fit\(...\)` instead"):
        fit_sync(dated.rows, **call)
    assert not (tmp_path / "ev").exists()
