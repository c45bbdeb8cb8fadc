"""DecompEval and GPTScore as whole runs against a server: every built-in task, one of the user's
own, a dry run."""

import orjson
import pytest

import textassay
from tests.cli.harness import textassay as command
from tests.methods.rainy_may import ROWS, STORY

METHODS = ("decomp-eval", "gptscore")


@pytest.mark.asyncio
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "task", ["summarization", "dialogue", "data-to-text", "translation", "general", "own"]
)
async def test_a_run_scores_every_aspect_of_a_task(name, task, mock_server, tmp_path):
    if task == "own":
        (tmp_path / "story.toml").write_text(STORY, encoding="utf-8")
        task = str(tmp_path / "story.toml")
    server = await mock_server()
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        run = await textassay.evaluate(ROWS, method=name, task=task, model=model)
    assert {score.outcome for score in run.scores} == {"scored"}
    assert all(
        score.evidence and score.signature.startswith(f"method:{name}|model:direct/mock|")
        for score in run.scores
    )
    assert len({(score.id, score.aspect) for score in run.scores}) == len(run.scores)
    if name == "gptscore":
        assert all(score.value < 0 and score.scale is None for score in run.scores)
    assert sum(score.usage.calls for score in run.scores) == server.counters.ok


@pytest.mark.parametrize("name", METHODS)
def test_the_command_line_foretells_the_calls_of_a_run_and_makes_them(name, server, tmp_path):
    data, out = tmp_path / "data.jsonl", tmp_path / "run"
    data.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in ROWS))
    flags = [
        "score",
        data,
        "--method",
        name,
        "--task",
        "dialogue",
        "--model",
        "direct/mock",
        "--api-base",
        server.url,
    ]
    flags += ["--set", "prompt_layout=shared-prefix"]
    dry = command(*flags, "--dry-run")
    assert dry.code == 0, dry.err
    assert server.counters.requests == 0
    done = command(*flags, "--out", out, "--progress", "none")
    assert done.code == 0, done.err + done.out
    foretold = next(line for line in dry.out.splitlines() if line.startswith("calls"))
    assert int(foretold.split()[-1]) == server.counters.ok
    scores = [orjson.loads(line) for line in (out / "scores.jsonl").read_bytes().splitlines()]
    assert len(scores) == 3 * 6
    scales = {tuple(score["scale"]) if score["scale"] else None for score in scores}
    assert scales == ({None} if name == "gptscore" else {(0.0, 1.0), (0.0, 3.0)})


@pytest.mark.parametrize(
    ("name", "options"), [("gptscore", []), ("decomp-eval", ["--set", "reading=logprob"])]
)
def test_a_server_without_log_probabilities_stops_a_run_and_names_what_would_do(
    name, options, server, tmp_path
):
    server.options.omit_logprobs = True
    data = tmp_path / "data.jsonl"
    data.write_bytes(orjson.dumps(ROWS[0]) + b"\n")
    flags = ["--method", name, "--task", "summarization", "--model", "direct/mock", *options]
    done = command("score", data, *flags, "--api-base", server.url, "--out", tmp_path / name)
    assert done.code in (2, 3)
    assert "log-probabilities" in done.err
