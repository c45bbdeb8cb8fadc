"""Criteria as sentences, juries, and what `score` takes where nothing is said."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import textassay as package
from tests.cli.harness import document, read_json, rows_of, served, textassay, write_examples
from tests.decision_server import Decisions, deciding_in_thread
from textassay.evaluation.defaults import MODEL_VARIABLE, default_folder
from textassay.methods.library.criteria import read_criteria
from textassay.runtime.errors import ConfigurationError

SUPPORTED = "Every statement is supported by the source."
POLITE = "Tone: The reply is polite."
KEYS = re.compile(r"_API_KEY$|_TOKEN$|_BASE_URL$|_API_BASE$")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shell without keys, in an empty folder."""
    import os

    for name in list(os.environ):
        if KEYS.search(name) or name == MODEL_VARIABLE:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def spec(run: Path) -> dict[str, Any]:
    """The request that a run's manifest has."""
    found: dict[str, Any] = read_json(run / "manifest.json")["spec"]
    return found


def only_run() -> Path:
    """The run in the folder of runs."""
    (run,) = Path("runs").iterdir()
    return run


def test_a_refused_command_makes_and_names_no_folder(data):
    done = textassay("score", data, "-a", "flu", "-m", "direct/mock", "--api-base", "http://x")
    assert (done.code, Path("runs").exists()) == (2, False)
    assert done.err.startswith("error: unknown aspect 'flu'")


def test_a_sentence_is_judged_recorded_resumed_and_reported(data, server):
    """One command with a sentence and a model; the folder is made and printed first."""
    at = ("-m", "direct/mock", "--api-base", server.url)
    done = textassay("score", data, "--criterion", SUPPORTED, "--criterion", POLITE, *at).ok()
    run = only_run()
    assert re.fullmatch(r"data-\d{8}-\d{6}", run.name)
    assert done.err.startswith(f"run folder: {run}")
    assert {row["aspect"] for row in rows_of(run)} == {"every-statement-supported-source", "Tone"}
    recorded = spec(run)
    assert recorded["method"] == "llm-score"
    assert [one["definition"] for one in recorded["aspects"]] == [
        f"how far this is met: {SUPPORTED}", "how far this is met: The reply is polite."
    ]  # fmt: skip
    before = rows_of(run)
    (run / "scores.jsonl").write_text("", encoding="utf-8")
    textassay("resume", run).ok()
    assert {(row["id"], row["aspect"], row["value"]) for row in rows_of(run)} == {
        (row["id"], row["aspect"], row["value"]) for row in before
    }
    textassay("report", run, "-o", "page.html").ok()
    assert "Tone" in Path("page.html").read_text("utf-8")
    pairs = ("--aspect-map", "Tone=fluency")
    assert [row["aspect"] for row in document("agreement", run, *pairs)["rows"]] == ["Tone"]


@pytest.mark.parametrize("method", ["llm-score", "g-eval", "decomp-eval", "checklist", "decide"])
@pytest.mark.parametrize("scale", ["1-5", "yes-no", "0-10", "fail,pass"])
def test_methods_judge_criteria_on_scales_and_by_yes_and_no(data, server, method, scale):
    flags = ("--criterion", SUPPORTED, "--scale", scale, "--method", method, "--dry-run")
    done = document("score", data, *flags, "-m", "direct/mock", "--api-base", server.url)
    assert done["estimate"]["calls"] >= 1


def test_a_checklist_answers_a_criterion_with_a_quotation_that_is_checked(data):
    answers = iter(["says that it rained", "words that are nowhere"] * 6)

    def reply(body: dict[str, Any], draw: int) -> str:
        assert 'Is this met: "Every statement is supported by the source"?' in str(body["messages"])
        return f"Answer: yes\nQuote: {next(answers)}"

    with served(reply=reply) as server:
        flags = ("--criterion", SUPPORTED, "--scale", "yes-no", "--method", "checklist")
        at = ("-m", "direct/mock", "--api-base", server.url, "-c", "1")
        textassay("score", data, *flags, *at, "-o", "run").ends(1)
    found = {(row["outcome"], row["value"]) for row in rows_of(Path("run"))}
    assert found == {("scored", 1.0), ("abstained", None)}
    rubric = ("--set", "checklist=rubric", "--dry-run")
    textassay("score", data, *flags, *at, *rubric).ends(2, "gives a share of points")


def test_a_choice_of_labels_is_asked_by_its_letters(data):
    with served(reply=lambda body, draw: '{"reason": "It is.", "score": "B"}') as server:
        flags = ("--criterion", "What is its tone?", "--scale", "friendly,neutral,rude")
        at = ("-m", "direct/mock", "--api-base", server.url)
        done = textassay("score", data, *flags, *at, "-o", "run").ok()
    values = [row["value"] for row in rows_of(Path("run"))]
    assert set(values) == {1.0}
    assert f"friendly 0, neutral {len(values)}, rude 0" in done.out
    assert list(spec(Path("run"))["aspects"][0]["labels"]) == ["friendly", "neutral", "rude"]


def test_a_task_names_the_parts_and_aspects_are_judged_beside(data):
    asked: list[str] = []

    def reply(body: dict[str, Any], draw: int) -> str:
        asked.append(body["messages"][-1]["content"])
        return "Score: 3"

    with served(reply=reply) as server:
        flags = ("--criterion", SUPPORTED, "--task", "summarization", "-a", "fluency")
        at = ("-m", "direct/mock", "--api-base", server.url)
        textassay("score", data, *flags, *at, "-o", "run").ok()
    assert {row["aspect"] for row in rows_of(Path("run"))} == {
        "fluency", "every-statement-supported-source"
    }  # fmt: skip
    assert all("Summary" in text for text in asked)
    clash = textassay("score", data, "--criterion", "fluency: It reads well.", "-a", "fluency", *at)
    clash.ends(2, "two aspects are called 'fluency'")


@pytest.mark.parametrize(
    ("sentences", "names"),
    [
        (("Every statement is supported by the source.",), ["every-statement-supported-source"]),
        (("The text is toxic.", "The text is not toxic."), ["text-toxic", "text-not-toxic"]),
        (("The reply is polite.", "The reply is polite!"), ["reply-polite", "reply-polite-2"]),
        (("Tone: It is polite.", "In the end: it is."), ["Tone", "In the end"]),
        (("The answer follows this format: a list.",), ["answer-follows-format-list"]),
        ((": The answer says: yes",), ["answer-says-yes"]),
        (("It cites https://example.com as is",), ["cites-https-example-com"]),
        (("回答は正確である。",), ["回答は正確である"]),
        (("It is so.",), ["it-is-so"]),
    ],
)
def test_names_are_given_or_made_of_the_telling_words(sentences, names):
    assert [aspect.name for aspect in read_criteria(sentences)] == names


@pytest.mark.parametrize(
    ("scale", "ends", "labels"),
    [
        (None, (1, 5), []), ("1-5", (1, 5), []), ("0 to 10", (0, 10), []), ("-1-1", (-1, 1), []),
        ("0.5-1.5", (0.5, 1.5), []), ("yes-no", (0, 1), ["no", "yes"]),
        ("No/Yes", (0, 1), ["no", "yes"]), ("pass, fail", (0, 1), ["fail", "pass"]),
        ("A,B,C", (0, 2), ["A", "B", "C"]),
    ],
)  # fmt: skip
def test_scales_are_numbers_yes_and_no_or_labels(scale, ends, labels):
    (aspect,) = read_criteria("It is polite.", scale)
    assert (aspect.scale, list(aspect.labels)) == (ends, labels)
    assert (aspect.question is not None) == (len(labels) != 3)


def test_a_question_is_asked_as_it_is():
    (aspect,) = read_criteria("Is it polite?", "yes-no")
    assert (aspect.question, aspect.definition) == ("Is it polite?", "Is it polite?")
    assert aspect.labels == {"no": "the answer is no", "yes": "the answer is yes"}


@pytest.mark.parametrize("scale", ["5-1", "3", "", "a", "a,A", "1,2,3", "a,,b"])
def test_a_scale_that_cannot_be_read_says_what_there_is(scale):
    with pytest.raises(ConfigurationError, match="scale="):
        read_criteria("It is polite.", scale)


@pytest.mark.parametrize("criteria", ["", " ", "?!", [], ["a b", ""]])
def test_criteria_that_are_not_sentences_are_refused(criteria):
    with pytest.raises(ConfigurationError, match="criteri"):
        read_criteria(criteria)


@pytest.mark.parametrize("name", ["mean", "NAMED"])
def test_python_takes_the_same_criteria(server, monkeypatch, name):
    rows = [{"id": "a", "output": "A text."}]
    given = {"mean": ["mean: It is meant well."], "NAMED": {"NAMED": "It is meant well."}}[name]
    settings = package.Settings(api_base=server.url)
    found = package.evaluate_sync(rows, criteria=given, model="direct/mock", settings=settings)
    assert [score.aspect for score in found] == [name]
    monkeypatch.setenv(MODEL_VARIABLE, "direct/mock")

    async def stream() -> list[str]:
        scores = package.stream(rows, criteria=given, scale="yes-no", settings=settings)
        return [score.aspect async for score in scores]

    assert asyncio.run(stream()) == [name]
    with pytest.raises(ConfigurationError, match="scale= needs criteria"):
        package.evaluate_sync(rows, scale="yes-no", model="direct/mock", settings=settings)


def test_the_one_thing_that_is_missing_is_said_and_nothing_is_made(monkeypatch):
    """Model first, then its key, then the data: each in one message."""
    command = ("score", "data.csv", "--criterion", SUPPORTED)
    missing = textassay(*command).ends(2, "no model is named: give --model", MODEL_VARIABLE)
    assert len(missing.err.splitlines()) == 1
    monkeypatch.setenv(MODEL_VARIABLE, "openai/gpt-4.1-mini")
    missing = textassay(*command).ends(2, "needs an API key: set OPENAI_API_KEY")
    assert len(missing.err.splitlines()) == 1
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    textassay(*command).ends(2, "data.csv")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
        ("mistral/mistral-small-latest", "MISTRAL_API_KEY"),
        ("typesafe/jev-latest", "TYPESAFE_API_KEY"),
        ("gpt-4.1-mini", "OPENAI_API_KEY"),
        ("decisions/gpt-6-luna --api-base https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openai/a --api-key-env OWN_KEY", "OWN_KEY"),
    ],
)
def test_a_missing_key_is_named_by_its_variable(data, model, variable):
    """In Python as well; a dry run needs none."""
    command = ("score", data, "--criterion", SUPPORTED, "--method", "decide", "-m", *model.split())
    textassay(*command).ends(2, variable)
    if "/" in model and "--" not in model:
        textassay(*command, "--dry-run").ok()
        with pytest.raises(ConfigurationError, match=variable):
            package.evaluate_sync(data, criteria=SUPPORTED, model=model, method="decide")


def test_a_server_of_the_users_own_needs_no_key(data, server):
    at = ("-m", "openai/mock", "--api-base", server.url)
    said = textassay("score", data, "--criterion", SUPPORTED, *at, "--dry-run").ok()
    assert "API key" not in said.err


def test_a_decision_model_decides(data):
    with deciding_in_thread(Decisions()) as url:
        at = ("-m", "systemone/jev", "--api-base", url)
        textassay("score", data, "--criterion", SUPPORTED, "--scale", "yes-no", *at).ok()
    assert spec(only_run())["method"] == "decide"
    assert {row["how"] for row in rows_of(only_run())} == {"decision"}


@pytest.mark.parametrize(
    "jury",
    [
        ("--jury", "direct/a", "direct/b", "direct/c"),
        ("--jury", "direct/a,direct/b,direct/c"),
        ("--jury", "direct/a", "--jury", "direct/b", "--jury", "direct/c"),
        ("-m", "juror=direct/a", "-m", "juror=direct/b", "-m", "juror=direct/c"),
    ],
)
@pytest.mark.parametrize("is_last", [True, False])
def test_a_jury_is_several_models_with_their_plain_mean(tmp_path, jury, is_last):
    data = write_examples(tmp_path / "data.jsonl", 1)
    ratings = {"a": 1, "b": 2, "c": 5}
    with served(reply=lambda body, draw: f"Score: {ratings[body['model']]}") as server:
        # the values of --jury end where a file is named
        given = (data, *jury) if is_last else (*jury, data)
        flags = ("--criterion", SUPPORTED, "--api-base", server.url, "-o", "run")
        order = ("score", *flags, *given)
        textassay(*order).ok()
    (row,) = rows_of(Path("run"))
    assert row["value"] == pytest.approx(8 / 3)
    assert spec(Path("run"))["method"] == "jury"


def test_a_jury_of_the_file_gives_way_to_a_model_that_is_typed(data, server):
    Path("judge.toml").write_text(
        f'jury = ["direct/a", "direct/b"]\ncriterion = "{SUPPORTED}"\napi_base = "{server.url}"\n',
        encoding="utf-8",
    )
    textassay("score", data, "--config", "judge.toml", "-o", "jury").ok()
    textassay("score", data, "--config", "judge.toml", "-m", "direct/c", "-o", "one").ok()
    assert spec(Path("jury"))["models"] == {"juror1": "direct/a", "juror2": "direct/b"}
    assert (spec(Path("one"))["models"], spec(Path("one"))["method"]) == (
        {"": "direct/c"}, "llm-score"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--jury direct/a", "--jury needs at least two models"),
        ("--jury direct/a direct/b -m direct/c", "--jury names the models; leave out --model"),
        ("--jury direct/a direct/b --method g-eval", "--jury uses the method jury"),
        ("-m direct/a --scale yes-no", "--scale needs criteria"),
        ("-m direct/a --criterion x --scale 5-1", "--scale must go up, such as 1-5"),
    ],
)
def test_flags_that_exclude_each_other_are_refused(data, flags, message):
    textassay("score", data, *flags.split()).ends(2, message)


def test_folders_by_default_are_new_and_named_after_the_data(tmp_path):
    from datetime import datetime

    def now() -> datetime:
        return datetime(2026, 11, 29, 13, 45)

    first = default_folder("some/Answers v2.jsonl.gz", now)
    assert first == Path("runs/answers-v2-20261129-134500")
    first.mkdir(parents=True)
    assert default_folder("Answers v2.csv", now) == Path("runs/answers-v2-20261129-134500-2")
