"""Models that think, with the plain command: each family of servers, each method."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples import thinking_server
from examples.thinking_server import FAMILIES, ThinkingServer
from tests.cli.harness import Outcome, document, read_json, rows_of, textassay, write_examples
from tests.loopback import in_thread
from textassay import connect, evaluate
from textassay.runtime.calls.adaptation import KNOWN

METHODS = ("llm-score", "g-eval", "hd-eval", "decomp-eval", "checklist", "claims", "pairwise")
THOUGHT = 900


@pytest.fixture(scope="module", params=FAMILIES)
def server(request):
    """A server of one family, whose thoughts take more tokens than any answer needs."""
    with in_thread(lambda: thinking_server.serve(request.param, THOUGHT)) as running:
        yield running


@pytest.fixture
def anthropic_key(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-local")


def judge(server: ThinkingServer) -> tuple[str, str]:
    """Name and address of the model of a server."""
    is_anthropic = server.family is FAMILIES["anthropic"]
    return ("anthropic/claude", server.url[:-3]) if is_anthropic else ("direct/x", server.url)


def score(
    server: ThinkingServer, data: Path, method: str, out: Path, *flags: object, model: str = ""
) -> Outcome:
    """Run the command of the README against a server."""
    name, base = judge(server)
    return textassay(
        "score", data, "--method", method, "--task", "summarization", "--model",
        model or name, "--api-base", base, "--out", out, "--progress", "none", *flags,
    )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_text_is_scored(server, tmp_path, anthropic_key, method):
    """No flag is needed, thoughts are never read for a verdict, and they are counted."""
    needed = {
        "pairwise": {"output_b": "It rained."},
        "decomp-eval": {"references": ["It rained all day."]},  # for relevance
    }
    data = write_examples(tmp_path / "data.jsonl", 2, **needed.get(method, {}))
    score(server, data, method, tmp_path / "run").ok()
    rows = rows_of(tmp_path / "run")
    assert {row["outcome"] for row in rows} == {"scored"}
    counts = server.family.counts
    thoughts = sum(row["usage"]["reasoning_tokens"] for row in rows)
    assert thoughts == 0 if counts == "never" or server.family.thought == "block" else thoughts > 0
    completed = sum(row["usage"]["completion_tokens"] for row in rows)
    assert completed > 0.9 * THOUGHT * len(rows)


def test_few_requests_are_refused_or_cut_and_the_same_run_costs_nothing(
    server, tmp_path, anthropic_key
):
    """Of 200 texts: what one request has taught holds for all others, and for the next run."""
    data, cache = write_examples(tmp_path / "data.jsonl", 100), tmp_path / "cache"
    before = server.counters.requests, server.counters.refused, server.cut
    flags = ("--aspects", "coherence,fluency", "--cache", cache)
    score(server, data, "llm-score", tmp_path / "first", *flags).ok()
    after = server.counters.requests, server.counters.refused, server.cut
    asked, refused, cut = (b - a for a, b in zip(before, after, strict=True))
    assert asked - refused - cut == 200
    assert refused + cut <= 4
    score(server, data, "llm-score", tmp_path / "second", *flags).ok()
    assert server.counters.requests == after[0]
    rows = [row for run in ("first", "second") for row in rows_of(tmp_path / run)]
    (signature,) = {row["signature"] for row in rows}
    (sent,) = read_json(tmp_path / "second" / "manifest.json")["sent"].values()
    assert sent["thinks"]
    assert ("temperature" in sent.get("unsent", ())) == ("unsent:temperature" in signature)


def test_the_doctor_says_what_it_is_like(server, anthropic_key):
    """Thoughts are seen wherever they stand, what is refused is named, and nothing stops it."""
    family, (model, base) = server.family, judge(server)
    is_anthropic = family is FAMILIES["anthropic"]
    rows = {row["ability"]: row for row in document("doctor", model, "--api-base", base)["rows"]}
    verdicts = {ability: row["verdict"] for ability, row in rows.items()}
    assert verdicts["chat"] == verdicts["thinks"] == verdicts["methods"] == "yes"
    assert verdicts["prompt"] == verdicts["continuation"] == "no"
    refuses_logprobs = is_anthropic or "logprobs" in family.refuses
    assert verdicts["logprobs"] == ("no" if refuses_logprobs else "yes")
    assert ("sample answers" in rows["methods"]["detail"]) is refuses_logprobs
    for name in {"temperature", "seed"} & family.refuses.keys():
        if not is_anthropic:  # litellm names the parameters it accepts before anything is sent
            assert f"takes no {name}" in rows["parameters"]["detail"]
    if not is_anthropic:
        # temperature 0 is sent to a model that takes it, also while it thinks
        advises = "see the model's card, and give --temperature" in rows["temperature"]["detail"]
        assert advises == ("temperature" not in family.refuses)
    if family.counts != "never" and not is_anthropic:
        assert re.match(r"[89]\d\d tokens of thought", rows["thinks"]["detail"])


def test_a_model_whose_name_says_that_it_thinks_gets_no_temperature_of_0(tmp_path):
    """And the temperature that the user gives; models of other names get the 0 as well."""
    data = write_examples(tmp_path / "data.jsonl", 1)
    sent = []
    with in_thread(lambda: thinking_server.serve("vllm", THOUGHT)) as server:
        server.listener = lambda body: sent.append(body.get("temperature"))
        for at, (model, *typed) in enumerate(
            [("direct/qwen3-32b",), ("direct/qwen3-32b", "--temperature", 0.6), ("direct/mine",)]
        ):
            flags = ("--aspects", "coherence", *typed)
            score(server, data, "llm-score", tmp_path / str(at), *flags, model=model).ok()
        server.listener = None
        names = "direct/qwen3-32b", "direct/mine"
        details = [
            {row["ability"]: row["detail"] for row in rows}["temperature"]
            for rows in (document("doctor", n, "--api-base", server.url)["rows"] for n in names)
        ]
    assert (sent[:2], set(sent[2:])) == ([None, 0.6], {0})
    assert "is not sent" in details[0]
    assert "give --temperature" in details[1]
    assert "unsent:temperature" in rows_of(tmp_path / "0")[0]["signature"]


OPENAI = {"direct/x": "direct/x", "litellm": "openai/x"}


@pytest.fixture(scope="module")
def openai():
    """A server of the family that refuses most."""
    with in_thread(lambda: thinking_server.serve("openai", THOUGHT)) as running:
        yield running


@pytest.mark.parametrize("model", OPENAI.values(), ids=OPENAI)
def test_effort_and_further_fields_reach_the_server_and_the_signature(
    openai, tmp_path, model, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-and-not-a-key")
    bodies = []
    openai.listener = bodies.append
    data = write_examples(tmp_path / "data.jsonl", 2)
    config = tmp_path / "judge.toml"
    config.write_text('[extra]\nsafety_identifier = "a"\n\n[models.scorer]\neffort = "high"\n')
    extra = ("--aspects", "coherence", "--config", config, "--extra", 'metadata={"run": 1}')
    done = score(openai, data, "llm-score", tmp_path / "run", *extra, model=model)
    openai.listener = None
    done.ok()
    answered = bodies[-1]
    assert answered["reasoning_effort"] == "high"
    assert answered["safety_identifier"] == "a"
    assert answered["metadata"] == {"run": 1}
    assert "temperature" not in answered
    (signature,) = {row["signature"] for row in rows_of(tmp_path / "run")}
    assert "|effort:high|" in signature
    assert "|extra:" in signature
    assert signature.endswith("|unsent:temperature")


def test_effort_is_translated_for_an_api_of_another_form(tmp_path, anthropic_key):
    """And not sent under OpenAI's name beside it, which such an API refuses."""
    bodies = []
    data = write_examples(tmp_path / "data.jsonl", 2)
    with in_thread(lambda: thinking_server.serve("anthropic", THOUGHT)) as running:
        running.listener = bodies.append
        effort = ("--effort", "medium", "--aspects", "coherence")
        name = "anthropic/claude-sonnet-5"
        score(running, data, "llm-score", tmp_path / "run", *effort, model=name).ok()
    assert {body["output_config"]["effort"] for body in bodies} == {"medium"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--temperature", "0.5"), "refuses --temperature 0.5"),
        (("--effort", "extreme"), "extreme"),
        (("--extra", "top_k=nothing"), "takes JSON"),
    ],
)
def test_a_typed_flag_is_not_left_out_in_silence(openai, tmp_path, flags, message):
    data = write_examples(tmp_path / "data.jsonl", 2)
    score(openai, data, "llm-score", tmp_path / "run", *flags).ends(2, message)


def test_thoughts_are_shown_and_priced(openai, tmp_path):
    """In the line that ends a run, in `show`, and in the cost; before, they are assumed."""
    data = write_examples(tmp_path / "data.jsonl", 2)
    flags = ("--aspects", "coherence", "--price", "1,10,0.1")
    done = score(openai, data, "llm-score", tmp_path / "run", *flags).ok()
    usages = [row["usage"] for row in rows_of(tmp_path / "run")]
    thoughts = sum(usage["reasoning_tokens"] for usage in usages)
    assert f" tokens ({thoughts:,} of thoughts), cost $" in done.out
    assert sum(usage["cost"] for usage in usages) > thoughts * 10 / 1e6
    assert f"({thoughts:,} of thoughts)" in textassay("show", tmp_path / "run").out


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("direct/gpt-6-luna", ["assumes 600 tokens of thought per answer", "(estimate)"]),
        ("direct/judge-of-ours", ["$0.00", "at most, if the model does not think"]),
    ],
)
def test_a_dry_run_says_what_it_assumes_of_thoughts(tmp_path, model, said):
    data = write_examples(tmp_path / "data.jsonl", 2)
    done = textassay(
        "score", data, "--method", "llm-score", "--task", "summarization", "--model", model,
        "--api-base", "http://127.0.0.1:9/v1", "--aspects", "coherence", "--price", "1,2",
        "--progress", "none", "--dry-run",
    )  # fmt: skip
    assert all(words in done.ok().out for words in said), done.out


def test_thoughts_are_shown_with_the_answers_that_they_led_to(tmp_path):
    data = write_examples(tmp_path / "data.jsonl", 1)
    with in_thread(lambda: thinking_server.serve("vllm", THOUGHT)) as server:
        score(server, data, "llm-score", tmp_path / "run", "--aspects", "coherence").ok()
    text = textassay("show", tmp_path / "run", "--prompts").out
    assert "    --- thought before it ---\n    Is it a 2" in text
    assert "more characters]" in text
    (row,) = document("show", tmp_path / "run", "--prompts")["rows"]
    assert len(row["thoughts"]) == len(row["answers"]) == 1
    assert row["thoughts"][0].startswith(thinking_server.WORDS)


def test_the_level_of_effort_that_is_sent_instead_is_reported(openai, tmp_path):
    data = write_examples(tmp_path / "data.jsonl", 2)
    openai.efforts = ("low", "medium", "high")
    done = score(openai, data, "llm-score", tmp_path / "run", "--effort", "max")
    openai.efforts = ()
    assert (
        "warning: direct/x takes no effort max, but low, medium, high; high is sent"
        in done.ok().err
    )
    (signature,) = {row["signature"] for row in rows_of(tmp_path / "run")}
    assert "|sent-effort:high" in signature


WISHES = ((), ("--effort", "low"), ("--extra", "top_k=20"), ("--set", "thinking_tokens=500"))


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: "".join(wish[1:]) or "plain")
def test_a_replay_asks_as_the_run_did(openai, tmp_path, wish):
    """Without its flags; with others it says which differ. A replay can be replayed."""
    data = write_examples(tmp_path / "data.jsonl", 2)
    score(openai, data, "g-eval", tmp_path / "first", *wish).ok()
    asked = openai.counters.requests
    for name, earlier in (("again", "first"), ("third", "again")):
        KNOWN.clear()  # as in another process
        replayed = f"replay/{tmp_path / earlier}"
        score(openai, data, "g-eval", tmp_path / name, model=replayed).ok()
        assert verdicts(tmp_path / name) == verdicts(tmp_path / "first")
    assert openai.counters.requests == asked
    other = score(
        openai, data, "g-eval", tmp_path / "other", "--effort", "high",
        model=f"replay/{tmp_path / 'first'}",
    )  # fmt: skip
    assert other.code == 1
    assert 'now with effort="high"' in other.out
    assert ('asked with effort="low", and' in other.out) is ("low" in wish)


def verdicts(run: Path) -> list[tuple[object, ...]]:
    rows = [(row["id"], row["aspect"], row["value"], row["signature"]) for row in rows_of(run)]
    return sorted(rows)


def test_a_replay_works_for_every_family(server, tmp_path, anthropic_key):
    """What was learned of the model is applied."""
    data = write_examples(tmp_path / "data.jsonl", 2)
    score(server, data, "llm-score", tmp_path / "first").ok()
    KNOWN.clear()
    score(server, data, "llm-score", tmp_path / "again", model=f"replay/{tmp_path / 'first'}").ok()
    assert verdicts(tmp_path / "again") == verdicts(tmp_path / "first")


def test_each_run_of_a_process_can_be_replayed_in_another(openai, tmp_path):
    """The second sends from the start what the first has learned."""
    data = write_examples(tmp_path / "data.jsonl", 2)
    for name in ("first", "second"):
        score(openai, data, "llm-score", tmp_path / name).ok()
    KNOWN.clear()
    replayed = f"replay/{tmp_path / 'second'}"
    score(openai, data, "llm-score", tmp_path / "again", model=replayed).ok()


ROLES = (
    '[models.scorer]\neffort = "high"\n\n[models.steps]\neffort = "low"\n',
    "[models.scorer]\ntemperature = 0.5\ntop_p = 0.9\nseed = 7\n",
    "[models.steps]\nextra = { top_k = 3 }\n",
)


@pytest.mark.parametrize("roles", ROLES)
def test_a_replay_asks_each_role_as_the_run_did(tmp_path, roles):
    data = write_examples(tmp_path / "data.jsonl", 2)
    config = tmp_path / "judge.toml"
    config.write_text(roles)
    with in_thread(lambda: thinking_server.serve("vllm", THOUGHT)) as vllm:
        score(vllm, data, "g-eval", tmp_path / "first", "--config", config).ok()
    KNOWN.clear()
    replayed = f"replay/{tmp_path / 'first'}"
    score(vllm, data, "g-eval", tmp_path / "again", model=replayed).ok()
    assert verdicts(tmp_path / "again") == verdicts(tmp_path / "first")


def test_a_replay_with_other_options_names_those_of_the_run(openai, tmp_path):
    data = write_examples(tmp_path / "data.jsonl", 1)
    score(openai, data, "g-eval", tmp_path / "first", "--set", "steps=none").ok()
    replayed = f"replay/{tmp_path / 'first'}"
    other = score(openai, data, "g-eval", tmp_path / "other", model=replayed)
    assert other.code == 1
    assert 'the run had method=g-eval, steps="none"' in other.out


async def test_a_replay_asks_as_a_connected_model_was_asked(openai, tmp_path):
    """The run's own settings do not say how."""
    rows = [{"id": "a", "source": "It rained.", "output": "It rained."}]
    run = {"method": "llm-score", "task": "summarization", "aspects": ["fluency"]}
    async with connect("direct/x", api_base=openai.url, effort="low") as model:
        first = await evaluate(rows, model=model, out=tmp_path / "first", **run)
    KNOWN.clear()
    again = await evaluate(rows, model=f"replay/{tmp_path / 'first'}", **run)
    assert [score.signature for score in again] == [score.signature for score in first]
    assert [score.value for score in again] == [score.value for score in first]
