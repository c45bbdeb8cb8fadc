"""The cascade: its bound on held-out documents, the folder, the jury that follows it, its cost."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from tests.calibration.columns import SCALES, columns_of
from tests.cli.harness import textassay
from textassay import evaluate
from textassay.calibration.calibration import learn_rule, upper_bound
from textassay.cli.commands.score import print_result
from textassay.evaluation.manifest import changed
from textassay.learning.cascade import Cascade, Rule, load, save
from textassay.methods import build
from textassay.runtime.backends.scripted import DryRunModel, ScriptedModel
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Usage
from textassay.runtime.model import Response, Sample
from textassay.runtime.storage.files import write_sealed
from textassay.runtime.storage.run_files import read_manifest


def test_the_bound_covers_new_sources_of_simulated_judges():
    """Errors that come in clusters: as many new sources lie below the bound in 95 of 100 draws."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 8)
    below = []
    for _ in range(400):
        rates = rng.beta(0.4, 4, size=80)
        wrong = rng.random(640) < np.repeat(rates, 8)
        stands = rng.random(640) < 0.7
        bound = upper_bound(stands[:320], wrong[:320], groups, 0.95)
        below.append(wrong[320:][stands[320:]].mean() <= bound)
    assert np.mean(below) >= 0.95


def test_too_few_sources_and_numbers_out_of_range_are_refused():
    rng = np.random.default_rng(1)
    columns = columns_of(rng.integers(1, 6, 30), rng.integers(1, 6, 30), np.arange(30) // 3)
    with pytest.raises(DataError, match="10 rated sources are too few for a bound"):
        learn_rule(columns, scales=SCALES, tolerance=1)
    with pytest.raises(ConfigurationError, match="risk must be between 0 and 1"):
        learn_rule(columns, scales=SCALES, tolerance=1, risk=1.5)


def rule_of(**fields):
    made = {
        "aspect": "fluency", "signature": "cheap", "scale": (1.0, 5.0), "scores": (1.0, 5.0),
        "ratings": (2.0, 4.0), "edges": (3.0,), "below": (None, 0.5), "above": (None, 0.4),
        "limit": 1.0, "tolerance": 1.0, "risk": 0.2, "confidence": 0.95, "bound": 0.1,
        "share": 0.5,
    }  # fmt: skip
    return Rule(**{**made, **fields})


def test_a_rule_reads_scores_and_survives_its_folder(tmp_path):
    rule = rule_of()
    assert rule.read(4) == (3.5, 3.0, 3.9, True)
    assert rule.read(2)[3] is False  # no interval was found for low scores
    assert rule.read(5.5)[3] is False  # no score like it was rated
    assert rule_of(limit=None).read(4)[3] is False
    save([rule], tmp_path / "c")
    assert load(tmp_path / "c") == Cascade((rule,), load(tmp_path / "c").digest)
    with pytest.raises(ConfigurationError, match="no rule for 'relevance'"):
        load(tmp_path / "c").of("relevance", "cheap")
    file = tmp_path / "c" / "cascade.json"
    file.write_text(file.read_text().replace('"risk": 0.2', '"risk": 0.3'))
    with pytest.raises(ConfigurationError, match="was edited or damaged"):
        load(tmp_path / "c")


@pytest.mark.parametrize(
    "fields", [{"colour": "red"}, {"risk": "0.5"}, {"share": True}, {"scale": ["1", 5.0]}]
)
def test_a_sealed_file_that_holds_something_else_is_refused(tmp_path, fields):
    file = tmp_path / "cascade.json"
    write_sealed(file, {"rules": [{**asdict(rule_of(tolerance=1)), **fields}]}, format=1)
    with pytest.raises(DataError, match=f"(?s)is damaged.*{next(iter(fields))}"):
        load(tmp_path)
    write_sealed(file, {"rules": [asdict(rule_of(tolerance=1))]}, format=1)
    assert type(load(tmp_path).rules[0].tolerance) is int


def rated_rows(count=320, per_source=4):
    """Texts whose quality the cheap judge sees where it is high, and guesses where it is low."""
    rng = np.random.default_rng(2)
    quality = rng.integers(1, 6, count)
    return [
        {
            "id": f"r{i}", "output": f"text {i}, quality {quality[i]}, noise {rng.integers(1, 4)}.",
            "group": f"g{i // per_source}", "human": {"fluency": float(quality[i])},
        }
        for i in range(count)
    ]  # fmt: skip


def numbers(request):
    quality, noise = (int(request.text.split(f"{word} ")[1][0]) for word in ("quality", "noise"))
    return quality, noise


def judge(name, price):
    """`cheap` is right from 4 on and says 1 to 3 at random below; `strong` is right."""

    def reply(request):
        quality, noise = numbers(request)
        said = quality if name == "strong" or quality > 3 else noise
        return Response(samples=(Sample(text=f"Score: {said}"),), usage=Usage(calls=1, cost=price))

    return ScriptedModel(reply, name=name)


def made(models, folder, **options):
    return {"method": "jury", "model": models, "task": "general", "aspects": ["fluency"],
            "options": {"escalate": str(folder), **options}}  # fmt: skip


async def test_the_strong_juror_is_asked_only_where_the_cheap_one_is_not_sure(tmp_path, capsys):
    rows = rated_rows()
    data, out = tmp_path / "rated.jsonl", tmp_path / "cascade"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, price in (("cheap", 1e-6), ("strong", 1e-4)):
        await evaluate(rows, method="jury", model={"juror": judge(name, price)}, task="general",
                       aspects=["fluency"], out=tmp_path / name)  # fmt: skip
    done = textassay(
        "cascade", tmp_path / "cheap", data, "--out", out, "--strong", tmp_path / "strong",
        "--tolerance", "0.5", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    shown = json.loads(done.out)
    [row] = shown["rows"]
    assert 0.2 < row["share"] < 0.6
    assert row["bound"] <= 0.2
    assert row["pearson"]["cheap"] < row["pearson"]["cascade"]
    assert shown["costs"]["cascade"] == pytest.approx(1e-6 + (1 - row["share"]) * 1e-4)
    cheap, strong = judge("cheap", 1e-6), judge("strong", 1e-4)
    run = await evaluate(
        rows, out=tmp_path / "run", **made({"juror1": cheap, "juror2": strong}, out)
    )
    # a dry run counts both jurors for every text
    dry = {"juror1": DryRunModel(cheap), "juror2": DryRunModel(strong)}
    counted = await evaluate(rows, **made(dry, out))
    assert sum(score.usage.calls for score in counted.scores) == 2 * len(rows)
    decided = [score for score in run.scores if score.evidence[0]["decides"]]
    assert len(strong.requests) == len(rows) - len(decided)
    assert len(decided) == pytest.approx(row["share"] * len(rows), abs=0.15 * len(rows))
    for score in decided:
        piece = score.evidence[0]
        assert score.value == piece["calibrated"]
        assert piece["low"] <= score.value <= piece["high"]
        assert piece["value"] >= 4
    [other] = [s for s in run.scores if not s.evidence[0]["decides"]][:1]
    assert other.evidence[1]["text"] == "strong"
    assert other.usage.cost == pytest.approx(1.01e-4)
    assert "|escalate:" in other.signature
    manifest = read_manifest(tmp_path / "run")
    bound = manifest["method"]["cascade"]["fluency"]["bound"]
    # runs begun before the manifest said so are resumed; the signature tells other rules
    before = {k: v for k, v in manifest["method"].items() if k != "cascade"}
    assert changed({**manifest, "method": before}, manifest) is None
    capsys.readouterr()
    print_result(run)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"cascade, fluency: the first juror decided on {len(decided)} of 320 (" in printed
    bound = math.ceil(100 * bound - 1e-9)
    assert f"at most {bound}% of the texts of as many new sources" in printed


@pytest.mark.parametrize(
    ("count", "options", "says"),
    [
        (2, {}, "learned from scores of 'cheap'"),
        (1, {}, "needs two jurors, the cheap one first, not 1"),
        (2, {"combine": "median"}, "combine has no effect in a cascade"),
    ],
)
def test_a_cascade_of_another_judge_or_with_other_options_is_refused(
    tmp_path, count, options, says
):
    save([rule_of()], tmp_path / "c")
    cheap, strong = judge("cheap", 0.0), judge("strong", 0.0)
    models = {"juror1": cheap, "juror2": strong} if count > 1 else {"juror": cheap}
    given = made(models, tmp_path / "c", **options)
    method, model = given.pop("method"), given.pop("model")
    with pytest.raises(ConfigurationError, match=says):
        build(method, model, **given)
