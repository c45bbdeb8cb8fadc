"""What cannot be done is refused with exit 2, what to do, and no run folder."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.harness import read_json, score, textassay

NOBODY = "http://127.0.0.1:9/v1"  # nothing is asked, so that nothing need listen
MODEL = ("--model", "direct/mock", "--api-base", NOBODY)


def refused(data, run, *flags, method="llm-score"):
    """Try to score, and return the message; nothing may be left behind."""
    done = textassay("score", data, "--method", method, "--out", run, *flags)
    assert (done.code, done.out, run.exists()) == (2, "", False), done
    return done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n\n", r"contains no examples"),
        ('{"output": "x"}\n{"output": 3}', r"line 2, field 'output': should be text, not 3"),
        ('{"output": "x", "human": {"tone": NaN}}', r"field 'human.tone': nan is not a finite"),
        (b'\xff\xfe{"output": "x"}', r"broken UTF-16 after line 0"),
    ],
)
def test_unusable_data_name_file_line_and_field(tmp_path, run, content, message):
    data = tmp_path / "bad.jsonl"
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    shown = refused(data, run, *MODEL)
    assert shown.startswith(f"error: {data}")
    assert re.search(message, shown)


def test_a_file_that_is_missing_or_of_another_kind_is_named(tmp_path, run):
    (tmp_path / "data.docx").write_bytes(b"x")
    for name, message in (
        ("nothing.jsonl", "nothing.jsonl': there is no such file"),
        (".", str(tmp_path)),
        ("data.docx", "data.docx"),
    ):
        assert message in refused(tmp_path / name, run, *MODEL)


TWO_MODELS = (
    "two models for every role, direct/mock and direct/other; name the role of each"
    " (--model juror=direct/mock --model juror=direct/other for a jury)"
)
NO_PRICE = "the price of 'direct/mock' is not known; give it with --price IN,OUT"
PRICE = "--price takes IN,OUT[,CACHED[,WRITTEN]]"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--aspects wit", "unknown aspect 'wit'; known: general: coherence, consistency, "),
        ("-a coherence,adequacy", "no built-in task has all of the aspects adequacy, coherence"),
        ("-a wit --task dialogue", "unknown aspect of task 'dialogue': 'wit'; known: naturalness,"),
        ("--aspects ,", "no aspect of task 'general' is chosen; it has: coherence"),
        ("--task poetry", "unknown task 'poetry'; known: summarization, dialogue"),
        ("--task poetry.toml", "poetry.toml does not exist"),
        ("--set colour=red", "unknown setting 'colour'; known: prompt_layout, prompt, profile,"),
        ("--method decide --temperature 0.5", "this method takes no temperature; leave out --temp"),
        ("--method decide --seed 1", "this method takes no seed; leave out --seed"),
        ("--method decomp-eval -n 3", "this method takes no n; leave out --n"),
        ("--set max_cost=1", "max_cost is not set with --set; give --max-cost"),
        ("--set colour", "--set takes key=value, not 'colour'"),
        ("--set attempts=0", "--set attempts: Input should be greater than or equal to 1 (given:"),
        ("--set timeout=-1", "--set timeout: "),
        ("--set form=smileys", "option form: "),
        ("--n 0", "option n: "),
        ("--set n=many", "option n: "),
        ("--temperature nan", "option temperature: Input should be a finite number"),
        ("--limit 0", "--limit: Input should be greater than or equal to 1 (given: 0)"),
        ("--concurrency 0", "--concurrency: "),
        ("--rpm inf", "--rpm: Input should be a finite number"),
        ("--tpm nan", "--tpm: "),
        ("--max-cost 1", NO_PRICE),
        ("--max-cost -1 --price 1,1", "--max-cost: Input should be greater than 0 (given: -1.0)"),
        ("--price 1", f"{PRICE} in US dollars per million tokens, not '1'"),
        ("--price 1,2,3,4,5", PRICE),
        ("--price 1,nan", "--price: Input should be a finite number"),
        ("--cache c --no-cache", "--cache and --no-cache exclude each other"),
        ("--cache s3://b/a", "--cache: answers are kept in a folder, not at an address"),
        ("--processes 9 --concurrency 8", "9 processes cannot respect --concurrency 8"),
        ("--processes 2 --max-cost 1", NO_PRICE),
        ("--api-key-env NO_SUCH_KEY", "names NO_SUCH_KEY, but that variable is not set"),
        ("--model direct/other", TWO_MODELS),
        ("--config nothing.toml", "--config nothing.toml: "),
        ("--shard 0/4", "1/4"),
        ("--shard 5/4", "1/4"),
        ("--shard a/b", "1/4"),
    ],
)
def test_unknown_names_and_values_say_what_there_is(data, run, flags, message):
    """Every flag that cannot be used is named with what is wrong and what would do."""
    assert message in refused(data, run, *MODEL, *flags.split())


@pytest.mark.parametrize("price", ["-1,2", "1,-1", "0,1,-1"])
def test_a_wrong_price_has_one_line(data, run, price):
    shown = refused(data, run, *MODEL, "--price", price)
    assert shown.count("error:") == shown.count("--price") == 1
    assert "--price: Input should be greater than or equal to 0 (given: -1.0)" in shown


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "no model for the role 'scorer'; give one with --model NAME"),
        (("--model", ""), "unknown model ''; known: direct/NAME, "),
        (("--model", "direct/"), "unknown model 'direct/'"),
        (("--model", "direct/mock"), "model 'direct/mock' needs --api-base"),
        (("--model", "no-such-model"), "litellm knows no provider for the model 'no-such-model'"),
        (("--model", "judge=direct/mock", "--api-base", NOBODY), "no model for the role 'scorer'"),
        (("--model", "replay/nothing"), "contains no run: it has no manifest.json"),
    ],
)
def test_models_that_cannot_be_used_are_named(data, run, flags, message):
    assert message in refused(data, run, *flags)


def test_a_model_known_to_lack_log_probabilities_is_refused_for_g_eval(data, run, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")
    flags = ("--model", "anthropic/claude-haiku-4-5", "--set", "reading=logprob")
    shown = refused(data, run, *flags, method="g-eval")
    assert "sends no log-probabilities" in shown
    assert "--n 20" in shown


def test_unknown_methods_and_missing_arguments_are_named(data, run):
    known = "unknown method 'best'; known: agent-judge, checklist, claims, coascore, decide, "
    assert known in refused(data, run, *MODEL, method="best")
    assert "score needs DATA" in textassay("score", "--method", "llm-score").err
    sharded = textassay("score", data, "--method", "llm-score", *MODEL, "--shard", "1/2")
    assert "--shard needs --out RUN/shard-I" in sharded.err
    assert textassay("score", data, "--colour").code == 2


def test_a_task_file_that_does_not_fit_is_named_with_its_key(data, run, tmp_path):
    task, aspect = tmp_path / "task.toml", 'name = "wit"\ndefinition = "d"\n'
    for more, message in (("scale = [5, 1]", "must be ascending"), ("colour = 1", "'colour'")):
        task.write_text(f'name = "t"\nintro = "A joke."\n[[aspects]]\n{aspect}{more}\n')
        shown = refused(data, run, *MODEL, "--task", task)
        assert (str(task) in shown, message in shown) == (True, True), shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("colour = 1", "flags.toml: unknown key 'colour'"),
        ("[set]\nn = 2", "there is no 'set'; write settings such as timeout above all tables"),
        ("[settings]\ntimeout = 2", "options of the method below [options]"),
        ("set = ['n=2']", "there is no 'set'"),
        ("[options]\ntotal_timeout = 9", "'total_timeout' is not an option of a method; write it"),
        ("n_ctx = 512", "flags.toml: 'n_ctx' belongs below [local]"),
        ("method = [", "--config "),
        ("model = 3", "'model' cannot be 3"),
        ("aspects = 3", "'aspects' cannot be 3"),
        ("options = 3", "'options' must be a table of settings, not 3"),
        ("price = 'cheap'", "--price takes IN,OUT"),
        ("concurrency = 'many'", "--concurrency: "),
        ("limit = 'few'", "--limit: "),
        ("progress = 'loud'", "unknown progress style 'loud'; known: auto, plain, none"),
        ("log = 'loud'", "unknown log format 'loud'; known: text, json"),
        ("[endpoints]\nrpm = 3", "each beginning with [[endpoints]]"),
        ("[models]\nscorer = 3", "models must consist of tables, such as [models.scorer], not 3"),
        ("[fields]\nanswer = 'colour'", "colour"),
        ("[fields]\nanswer = 'output'", "no row has the field 'answer'"),
    ],
)
def test_a_file_of_flags_that_does_not_fit_is_named(data, run, tmp_path, content, message):
    config = tmp_path / "flags.toml"
    config.write_text(content)
    assert message in refused(data, run, *MODEL, "--config", config)


def test_folders_that_cannot_hold_a_run_or_answers_are_refused(server, data, tmp_path):
    score(data, tmp_path / "run", server, aspects="fluency").ok()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letters.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for out, more, message in (
        (data, (), "is a file; name a folder"),
        (foreign, (), "contains other files (letters.txt)"),
        (tmp_path / "run", (), "(in Python: `resume=True`), or choose another folder"),
        (tmp_path / "new", ("--cache", data), "is a file"),
        (tmp_path / "new", ("--cache", foreign), "contains other files and is not a cache folder"),
    ):
        score(data, out, server, *more, aspects="fluency").ends(2, message)
    assert server.counters.requests == 6
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_resume_needs_a_run_whose_data_are_there(server, data, run, tmp_path):
    assert "contains no run: it has no manifest.json" in textassay("resume", tmp_path).err
    score(data, run, server, aspects="fluency").ok()
    data.unlink()
    for command in ("agreement", "check"):
        textassay(command, run).ends(2, "the run's data are no longer at")
    manifest = read_json(run / "manifest.json")
    for spec, message in (
        (manifest["spec"], "the run's data are no longer at"),
        (None, "does not say how the run was made"),
        ({**manifest["spec"], "data": None}, "came from memory"),
    ):
        (run / "manifest.json").write_text(json.dumps({**manifest, "spec": spec}))
        textassay("resume", run).ends(2, message)
    (run / "manifest.json").write_text("{")
    assert textassay("resume", run).code == 2


@pytest.mark.parametrize(
    "command", [("resume",), *(("cache", w) for w in ("info", "verify", "clear"))]
)
def test_a_file_in_place_of_a_folder_does_not_crash(data, command):
    assert textassay(*command, data).code == 2
