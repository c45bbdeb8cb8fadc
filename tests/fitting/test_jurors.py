"""What each juror adds: a duplicate and a guesser are to be left out, with costs from a run."""

import json

import numpy as np
import pytest

from tests.cli.harness import textassay
from tests.fitting.made_texts import write
from textassay import evaluate
from textassay.fitting.importance import juries, jurors_in, worths
from textassay.fitting.learn import Fitter
from textassay.fitting.read_table import read_table
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.model import Response, Sample

JURORS = ("first", "second", "copy", "guess")
COSTS = {"first": 0.001, "second": 0.002, "copy": 0.01, "guess": 0.003}


def rated(count=240, per_source=4):
    """Rows whose ratings have two sides, of which each useful juror sees one."""
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, count))
    said = {
        "first": one + 0.5 * rng.normal(size=count), "second": two + 0.5 * rng.normal(size=count),
        "guess": rng.normal(size=count),
    }  # fmt: skip
    said["copy"] = said["first"] + 0.1 * rng.normal(size=count)
    human = np.clip(3 + 0.6 * one + 0.6 * two + 0.3 * rng.normal(size=count), 1, 5)
    return [
        {
            "id": f"r{i}", "output": f"text {i}.", "group": f"g{i // per_source}",
            "human": {"fluency": float(human[i])},
            "metrics": {
                f"{name}/fluency": float(np.clip(np.round(3 + values[i]), 1, 5))
                for name, values in said.items()
            },
        }
        for i in range(count)
    ]  # fmt: skip


def table_of(rows):
    return read_table(Examples(rows), patterns=("*",))


def test_jurors_that_add_nothing_are_to_be_left_out_the_dearer_of_two_equals_first():
    found = {
        one.juror: one
        for one in worths(table_of(rated()), Fitter({"fluency": (1, 5)}, 0, 1), costs=COSTS)
    }
    assert [name for name in JURORS if found[name].leave_out] == ["copy", "guess"]
    assert found["second"].low > 0
    assert found["guess"].low <= 0 <= found["guess"].high or found["guess"].gain < 0
    # beside its copy the first juror is hardly missed, which is why one goes at a time
    assert found["first"].gain < found["second"].gain / 2
    second = found["second"]
    assert second.per_dollar.value == pytest.approx(second.gain / 2)
    assert second.per_dollar.ends == pytest.approx((second.low / 2, second.high / 2))


def test_jurors_are_ordered_by_gain_per_dollar_only_if_each_has_a_price():
    fitter = Fitter({"fluency": (1, 5)}, 0, 1)
    names = ("first/fluency", "second/fluency")
    rows = [{**row, "metrics": {name: row["metrics"][name] for name in names}} for row in rated()]
    # a local juror costs nothing: neither order by dollars nor a mixture of two units
    costs = {"first": 0.0, "second": 0.00001}
    gains = [one.gain for one in worths(table_of(rows), fitter, costs=costs)]
    assert gains == sorted(gains, reverse=True)
    dear = max(costs := {"first": 0.001, "second": 0.01}, key=costs.get)
    assert worths(table_of(rows), fitter, costs=costs)[-1].juror == dear


def test_scores_of_no_jury_and_too_few_sources_are_refused():
    names = ("topics/refund/a", "b/topics/refund", "topics/a")
    assert jurors_in(names, ("topics/refund", "refund")) == ("a", "b")
    names = ("fluency/a", "b/fluency", "rouge1", "a/x/fluency")
    assert jurors_in(names, ("fluency",)) == ("a", "b", "a/x")
    fitter = Fitter({"fluency": (1, 5)}, 0, 1)
    rows = rated()
    alone = [{**row, "metrics": {"a/fluency": row["metrics"]["first/fluency"]}} for row in rows]
    with pytest.raises(ConfigurationError, match="the scores contain 1 jurors"):
        worths(table_of(alone), fitter)
    with pytest.raises(DataError, match="fewer than 10 rated sources"):
        worths(table_of(rows[:36]), fitter)


async def test_on_the_command_line_with_costs_from_usage(tmp_path):
    given = rated(80)
    rows = [{**row, "metrics": {}} for row in given]
    known = {row["output"]: row["metrics"] for row in given}

    def juror(name):
        def reply(request):
            text = next(text for text in known if text in request.text)
            said = f"Score: {known[text][f'{name}/fluency']:g}"
            usage = Usage(calls=1, cost=COSTS[name])
            return Response(samples=(Sample(text=said),), usage=usage)

        return ScriptedModel(reply, name=name)

    names = ("first", "second", "guess")
    models = {f"juror{i}": juror(name) for i, name in enumerate(names)}
    await evaluate(rows, method="jury", model=models, task="general", aspects=["fluency"],
                   options={"output": "jurors"}, out=tmp_path / "run")  # fmt: skip
    done = textassay(
        "show",
        tmp_path / "run",
        "--jurors",
        "--human",
        write(tmp_path / "data.jsonl", rows),
        "--json",
    )
    assert done.code == 0, done.err
    found = {row["juror"]: row for row in json.loads(done.out)["rows"]}
    costs = {name: row["cost"] for name, row in found.items()}
    assert costs == pytest.approx({name: COSTS[name] for name in names})
    assert [name for name, row in found.items() if row["leave_out"]] == ["guess"]
    shown = textassay("show", tmp_path / "run", "--jurors", "--human", tmp_path / "data.jsonl")
    assert "A jury of first, second is not shown to be worse" in shown.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("noises", "words"),
    [((1.0, 1.1), "a plain mean nearly always beats the best"),
     ((0.9, 1.5), "a plain mean may help or hurt"),
     ((0.3, 3.0), "with such a lead, use the best juror alone")],
)  # fmt: skip
def test_the_lead_of_the_best_juror_says_whether_a_plain_mean_pays(noises, words, tmp_path):
    rng = np.random.default_rng(4)
    quality = rng.normal(size=400)
    rows = [
        {"id": f"r{i}", "group": f"g{i // 4}", "human": {"fluency": float(quality[i])},
         "metrics": {f"{name}/fluency": float(quality[i] + noise * rng.normal())
                     for name, noise in zip(("first", "second"), noises, strict=True)}}
        for i in range(400)
    ]  # fmt: skip
    data = write(tmp_path / "rated.jsonl", rows)
    done = textassay("show", data, "--jurors", "--human", data)
    assert words in done.out + done.err
    found = json.loads(textassay("show", data, "--jurors", "--human", data, "--json").out)
    x, y = ([row["metrics"][f"{name}/fluency"] for row in rows] for name in ("first", "second"))
    alone = {row["juror"]: row["alone"] for row in found["rows"]}
    assert alone["first"] == pytest.approx(np.corrcoef(x, quality)[0, 1])
    both = np.corrcoef(np.add(x, y), quality)[0, 1]
    r = {one["name"]: one["r"] for one in found["juries"]}
    assert r["first alone"] == pytest.approx(alone["first"])
    assert r["plain mean"] == pytest.approx(both)


def fitter_for(low, high):
    return Fitter({"fluency": (low, high)}, 0, 1)


def test_a_judge_with_many_prompts_does_not_outvote_another_one():
    rows = rated(160)
    for row in rows:
        said = row["metrics"]
        row["metrics"] = {
            f"{name}/fluency": said[f"{old}/fluency"]
            for name, old in (("a/one", "first"), ("a/two", "copy"), ("b", "second"))
        }
    found = {one.name: one.r for one in juries(table_of(rows), fitter_for(1, 5))}
    by_name = {name: [row["metrics"][name] for row in rows] for name in rows[0]["metrics"]}
    of_a = np.mean([by_name["a/one/fluency"], by_name["a/two/fluency"]], axis=0)
    human = [row["human"]["fluency"] for row in rows]
    both = np.corrcoef(np.add(of_a, by_name["b/fluency"]), human)[0, 1]
    assert found["mean by judge, then over judges"] == pytest.approx(both)
    assert found["plain mean"] < both


def test_of_pairs_and_questions_with_one_best_answer_the_share_of_right_choices_is_shown():
    rng = np.random.default_rng(6)
    best = [int(rng.integers(4)) for _ in range(60)]
    texts = [
        {"id": f"q{q}-{at}", "output": "-", "group": f"q{q}",
         "human": {"fluency": float(at == best[q])},
         "metrics": {"good/fluency": float(at == best[q]) if q % 4 else 0.0,
                     "poor/fluency": float(rng.random())}}
        for q in range(60) for at in range(4)
    ]  # fmt: skip
    found = juries(table_of(texts), fitter_for(0, 1))
    # a quarter of the questions ties: one of four by chance
    assert found[0].name == "good alone"
    assert found[0].right.value == pytest.approx(0.75 + 0.25 / 4)
    pairs = [
        {"id": f"p{n}", "output": "a", "output_b": "b", "human": {"fluency": float(n % 2)},
         "metrics": {"good/fluency": float(n % 2) if n % 5 else 0.5,
                     "against/fluency": float(1 - n % 2)}}
        for n in range(100)
    ]  # fmt: skip
    ids = {row["id"] for row in pairs}
    worth = {one.juror: one.right for one in worths(table_of(pairs), fitter_for(0, 1), pairs=ids)}
    assert worth == pytest.approx({"good": 0.9, "against": 0.0})
    right = {one.name: one.right.value for one in juries(table_of(pairs), fitter_for(0, 1), ids)}
    # the plain mean is a tie of both wherever the good one decides, and wrong elsewhere
    assert right["plain mean"] == pytest.approx(0.4)
    # the one that is always wrong has no weight; ties are decided by the mean of the ratings
    assert right["learned weights, none negative"] >= 0.8


def test_the_best_juror_of_questions_chooses_best_on_the_texts_that_all_scored():
    """Its r may be lower: here a juror grades whole questions too high, and chooses right."""
    rows = [
        {"id": f"q{q}-{at}", "output": "-", "group": f"q{q}", "human": {"fluency": float(at == 0)},
         "metrics": {"right/fluency": float(10 * (q % 7) + (at == 0)),
                     "near/fluency": float((at == 0) - 2 * (at == 1 and q % 4 == 0)) if q % 5
                     else float(at == 1)}}
        for q in range(60) for at in range(3)
    ]  # fmt: skip
    for row in rows[::60]:  # a text that one of them left unscored
        del row["metrics"]["near/fluency"]
    names = [one.name for one in juries(table_of(rows), fitter_for(0, 1))]
    assert names[0] == "right alone"


def test_a_text_that_nobody_scored_leaves_the_choices_of_other_questions():
    rows = [
        {"id": f"q{q}-{at}", "output": "-", "group": f"q{q}", "human": {"fluency": float(at == 0)},
         "metrics": {"good/fluency": float(at == 0), "poor/fluency": float(at == q % 3)}}
        for q in range(60) for at in range(3)
    ]  # fmt: skip
    rows[0]["metrics"] = {}
    right = {one.name: one.right.value for one in juries(table_of(rows), fitter_for(0, 1))}
    assert right["good alone"] == 1.0
    for row in rows[:90]:  # two best texts of a question are no choice
        row["human"]["fluency"] = 1.0
    assert juries(table_of(rows), fitter_for(0, 1))[0].right.value is None


def test_a_juror_without_any_agreement_is_better_than_one_that_is_always_wrong():
    rows = [
        {"id": f"r{i}", "output": "-", "group": f"g{i}", "human": {"fluency": float(i % 3)},
         "metrics": {"wrong/fluency": float(-(i % 3)), "guess/fluency": float(i % 3 == 1)}}
        for i in range(42)
    ]  # fmt: skip
    best = juries(table_of(rows), fitter_for(0, 2))[0]
    assert (best.name, best.r) == ("guess alone", 0.0)


def test_pairs_of_one_source_are_one_observation_in_every_aspect():
    """As in `agreement`: with five equal pairs of each source, the interval is as of one pair."""

    def right(per_source, aspects):
        pairs = [
            {"id": f"p{source}-{n}", "output": "a", "output_b": "b", "group": f"g{source}",
             "human": dict.fromkeys(aspects, float(source % 2)),
             "metrics": {f"{name}/{aspect}": float((source + (source % 7 == miss)) % 2)
                         for name, miss in (("one", 0), ("other", 3)) for aspect in aspects}}
            for source in range(40) for n in range(per_source)
        ]  # fmt: skip
        fitter = Fitter(dict.fromkeys(aspects, (0.0, 1.0)), seed=0, threads=1)
        return juries(table_of(pairs), fitter, {row["id"] for row in pairs})[0].right

    alone, several = right(1, ["fluency"]), right(5, ["fluency"])
    assert several.value == alone.value
    assert several.half_width == pytest.approx(alone.half_width, rel=0.02)
    assert right(1, ["fluency", "style"]).half_width == pytest.approx(alone.half_width, rel=0.02)


def test_a_jury_whose_members_all_fall_as_quality_rises_is_worth_nothing():
    rows = [
        {**row, "metrics": {f"{n}/fluency": -row["metrics"][f"{n}/fluency"] for n in JURORS[:2]}}
        for row in rated(120)
    ]
    assert [one.gain for one in worths(table_of(rows), fitter_for(1, 5))] == [0.0, 0.0]
    assert juries(table_of(rows), fitter_for(1, 5))[-1].r is None


def test_the_best_jury_of_a_size_is_chosen_on_other_sources():
    """Of jurors that know nothing the best would look good on the rows that it is chosen on."""
    rng = np.random.default_rng(3)
    rows = [
        {"id": f"r{n}", "output": "-", "group": f"g{n // 2}",
         "human": {"fluency": float(rng.integers(1, 6))},
         "metrics": {f"{juror}/fluency": float(rng.random()) for juror in "abcdef"}}
        for n in range(80)
    ]  # fmt: skip
    rs = {one.name: one.r for one in juries(table_of(rows), fitter_for(1, 5))}
    names = [f"best {size}, chosen on other sources" for size in (2, 3, 4, 5)]
    assert [name for name in rs if name.startswith("best ")] == names
    assert max(rs[name] for name in names) < 0.1 < next(iter(rs.values()))
    # two good jurors of four, with other means than the others
    for row in rows:
        said = row["metrics"] = {"a/fluency": rng.normal(5), "b/fluency": rng.normal(5)}
        for juror in "cd":
            said[f"{juror}/fluency"] = row["human"]["fluency"] + rng.normal()
    rs = {one.name: one.r for one in juries(table_of(rows), fitter_for(1, 5))}
    human = [row["human"]["fluency"] for row in rows]
    both = [row["metrics"]["c/fluency"] + row["metrics"]["d/fluency"] for row in rows]
    assert rs[names[0]] == pytest.approx(np.corrcoef(both, human)[0, 1])


def test_the_chosen_jury_of_pairs_keeps_its_ties():
    pairs = [
        {"id": f"p{n}", "output": "a", "output_b": "b", "human": {"fluency": float(n % 4 == 0)},
         "metrics": {"good/fluency": float(n % 4 == 0), "same/fluency": float(n % 4 == 0),
                     "against/fluency": float(n % 4 > 0)}}
        for n in range(100)
    ]  # fmt: skip
    found = juries(table_of(pairs), fitter_for(0, 1), {row["id"] for row in pairs})
    right = {one.name: one.right.value for one in found}
    assert right["best 2, chosen on other sources"] == pytest.approx(1.0)
