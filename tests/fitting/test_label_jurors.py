"""Jurors that give labels without an order: votes, and confusion tables learned from people."""

import json
from collections import Counter

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from tests.cli.harness import document, textassay, write_lines
from textassay import ScriptedModel, evaluate, fit, fit_sync
from textassay.fitting.importance import Worth, jury_tables
from textassay.runtime.base import Usage
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.model import Response, Sample

LABELS = ("bug", "praise", "++", "**")
TASK = """
name = "support"
intro = "You will be given a message."
output_name = "Message"
[[aspects]]
name = "intent"
definition = "what the message is for."
labels = {bug = "", praise = "", question = ""}
"""


def made(count=300, seed=0):
    """Ratings of two people, and three jurors: good, one that swaps two labels, and a guesser."""
    rng = np.random.default_rng(seed)
    swapped = {"bug": "praise", "praise": "bug"}
    people, scores = [], []
    for at in range(count):
        label = LABELS[rng.integers(4)]
        second = label if rng.random() < 0.8 else LABELS[rng.integers(4)]
        people.append({"id": f"r{at}", "annotators": {"intent": [label, second]}})
        good = label if rng.random() < 0.6 else LABELS[rng.integers(4)]
        confused = swapped.get(label, label) if rng.random() < 0.9 else LABELS[rng.integers(4)]
        # never says "**"
        guess = LABELS[rng.integers(3)]
        said = {"good": good, "confused": confused.upper(), "guess": guess}
        scores += [
            {"id": f"r{at}", "aspect": f"intent/{juror}", "value": one}
            for juror, one in said.items()
        ]
    return people, scores


def by_hand(people, scores):
    """Share of raters who gave the label with most votes, ties shared, by set of jurors."""
    votes = {}
    for row in scores:
        votes.setdefault(row["id"], {})[row["aspect"].partition("/")[2]] = row["value"].casefold()

    def right(jurors):
        found = []
        for row in people:
            counts = Counter(votes[row["id"]][juror] for juror in jurors)
            first = [label for label, one in counts.items() if one == max(counts.values())]
            given = [label.casefold() for label in row["annotators"]["intent"]]
            found.append(sum(given.count(label) for label in first) / len(first) / len(given))
        return float(np.mean(found))

    return right


def show(tmp_path, people, scores):
    data = write_lines(tmp_path / "people.jsonl", people)
    return document("show", write_lines(tmp_path / "s.jsonl", scores), "--human", data, "--jurors")


def test_votes_are_counted_with_ties_shared_and_confusion_tables_learn_what_a_juror_means(tmp_path):
    people, scores = made()
    found = show(tmp_path, people, scores)
    right = by_hand(people, scores)
    alone = {row["juror"]: row["right"] for row in found["rows"]}
    assert alone == pytest.approx({name: right([name]) for name in ("good", "confused", "guess")})
    best, vote, best_two, learned = found["juries"]
    assert (best["name"], vote["name"]) == ("good alone", "vote")
    assert best_two["name"] == "best 2, chosen on other sources"
    assert best["right"]["value"] == pytest.approx(right(["good"]))
    assert vote["right"]["value"] == pytest.approx(right(["good", "confused", "guess"]))
    over = vote["right"]["value"] - best["right"]["value"]
    assert vote["over_best"]["value"] == pytest.approx(over)
    assert learned["name"] == "learned confusion tables"
    # the juror that swaps two labels is the most certain one once that is known
    assert learned["over_best"]["low"] > 0.1
    assert learned["right"]["value"] > 0.8
    left_out = {row["juror"] for row in found["rows"] if row["leave_out"]}
    assert "guess" in left_out
    assert "confused" not in left_out


def test_labels_with_slashes_are_labels_like_any_others(tmp_path):
    people, scores = made(100)
    with_slashes = {"++": "bug/ui", "**": "bug/api"}

    def rename(label):
        return with_slashes.get(label, label)

    renamed = [
        {**row, "annotators": {"intent": list(map(rename, row["annotators"]["intent"]))}}
        for row in people
    ]
    plain = show(tmp_path, people, scores)
    found = show(tmp_path, renamed, [{**row, "value": rename(row["value"])} for row in scores])
    assert {row["juror"]: row["right"] for row in found["rows"]} == pytest.approx(
        {row["juror"]: row["right"] for row in plain["rows"]}
    )
    assert found["juries"][1]["right"]["value"] == plain["juries"][1]["right"]["value"]


def test_the_lead_of_a_juror_of_labels_does_not_recommend_a_vote(tmp_path):
    people, scores = made(60)
    data = write_lines(tmp_path / "people.jsonl", people)
    scores = write_lines(tmp_path / "s.jsonl", scores)
    done = textassay("show", scores, "--human", data, "--jurors")
    assert "no vote was better than its best juror" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("alone", "words"),
    [
        ((0.5, 0.7), "b leads in r, 0.700 to 0.500 of the next one"),
        ((0.7, 0.7), "a and b are equal in r, 0.700"),
        ((0.7004, 0.7), "a and b are equal in r, 0.700"),  # as printed
    ],
)
def test_no_juror_leads_where_two_are_equal(alone, words):
    gains = [
        Worth(name, r, None, 0.1, 0.0, 0.2, None, leave_out=False)
        for name, r in zip("ab", alone, strict=True)
    ]
    (table, _) = jury_tables(gains, ())
    assert any(note.text.startswith(words) for note in table.notes)


@pytest.mark.parametrize(
    ("names", "are_of_one_judge"),
    [(("a/one", "a/two"), True), (("a/one", "b/one"), False), (("a", "a/two", "b"), False)],
)
def test_prompts_of_one_judge_are_no_jury(names, are_of_one_judge):
    gains = [Worth(name, 0.7, None, 0.1, 0.0, 0.2, None, leave_out=False) for name in names]
    (table, _) = jury_tables(gains, ())
    said = any("no better than the best of them asked as often" in n.text for n in table.notes)
    assert said == are_of_one_judge


def test_an_evaluator_learned_from_labels_gives_the_share_of_raters_of_each_label(tmp_path):
    people, scores = made()
    source = write_lines(tmp_path / "s.jsonl", scores)
    fitted = fit_sync(people, scores=[source], aggregator="ridge", out=tmp_path / "ev")
    assert {aspect.name for aspect in fitted.evaluator.aspects} == {f"intent/{x}" for x in LABELS}
    held_out = fitted.report["held_out"]["labels"]
    assert held_out["value"] == pytest.approx(
        show(tmp_path, people, scores)["juries"][-1]["right"]["value"], abs=0.03
    )
    new = [{"id": row["id"], "output": "-"} for row in people]
    data = write_lines(tmp_path / "new.jsonl", new)
    run = tmp_path / "run"
    done = textassay("score", data, "--method", tmp_path / "ev", "--set", f"scores={source}",
                     "--out", run)  # fmt: skip
    assert done.code == 0, done.err
    shares = {}
    for line in (run / "scores.jsonl").read_text().splitlines():
        row = json.loads(line)
        shares.setdefault(row["id"], {})[row["aspect"]] = row["value"]
    first = {id_: max(own, key=own.get) for id_, own in shares.items()}
    same = [f"intent/{one}" == first[row["id"]] for row in people
            for one in row["annotators"]["intent"]]  # fmt: skip
    assert np.mean(same) > 0.8


def test_a_label_that_few_texts_have_is_not_learned_and_a_judge_that_gives_it_leaks_nothing(
    tmp_path,
):
    def scores_file(lines):
        return write_lines(tmp_path / "s.jsonl", lines)

    people, scores = made(120)
    people[7] = {"id": "r7", "annotators": {"intent": ["odd", "odd"]}}
    scores = [
        {**row, "value": "odd"} if (row["id"], row["aspect"]) == ("r7", "intent/good") else row
        for row in scores
    ]
    fitted = fit_sync(people, scores=[scores_file(scores)], aggregator="ridge")
    assert "intent/odd" not in {aspect.name for aspect in fitted.evaluator.aspects}
    rare = [{**row, "annotators": {"intent": [f"own {at}"]}} for at, row in enumerate(people)]
    with pytest.raises(DataError, match="'intent': people gave each label to fewer than 10 texts"):
        fit_sync(rare, scores=[scores_file(scores)], aggregator="ridge")
    equal = [{**row, "annotators": {"intent": ["bug"]}} for row in people]
    with pytest.raises(DataError, match="people gave every text the same label"):
        fit_sync(equal, scores=[scores_file(scores)], aggregator="ridge")
    copied = [
        {"id": row["id"], "aspect": "copy/intent", "value": row["annotators"]["intent"][0]}
        for row in people
    ]
    single = [{**row, "annotators": {"intent": row["annotators"]["intent"][:1]}} for row in people]
    with pytest.raises(DataError, match="leakage"):
        fit_sync(single, scores=[scores_file(copied)], aggregator="ridge")


def test_labels_among_the_metrics_of_the_data_are_refused_as_features():
    people, _ = made(60)
    rows = [{**row, "metrics": {"judge/intent": "bug"}} for row in people]
    with pytest.raises(ConfigurationError, match="give them as a file of scores"):
        fit_sync(rows, features=["*"], aggregator="ridge")


async def test_a_run_that_keeps_its_jurors_has_their_labels(tmp_path):
    task = tmp_path / "support.toml"
    task.write_text(TASK, encoding="utf-8")
    people, scores = made(60)
    kept = {"++": "question", "**": "question"}
    rows = [
        {**row, "output": f"text {at}.",
         "annotators": {"intent": [kept.get(x, x) for x in row["annotators"]["intent"]]}}
        for at, row in enumerate(people)
    ]  # fmt: skip
    said = {(row["id"], row["aspect"].partition("/")[2]): row["value"].casefold() for row in scores}

    def juror(name):
        def reply(request):
            at = next(at for at in range(60) if f"text {at}." in request.text)
            label = said[f"r{at}", name]
            said_label = "ABC"[("bug", "praise", "question").index(kept.get(label, label))]
            usage = Usage(calls=1, cost=0.01)
            return Response(samples=(Sample(text=f"Answer: {said_label}"),), usage=usage)

        return ScriptedModel(reply, name=name)

    names = ("good", "confused", "guess")
    models = {f"juror{at}": juror(name) for at, name in enumerate(names)}
    data = write_lines(tmp_path / "data.jsonl", rows)
    run = await evaluate(data, method="jury", model=models, task=str(task), out=tmp_path / "run",
                   options={"output": "jurors"})  # fmt: skip
    found = document("show", tmp_path / "run", "--jurors")
    assert [row["cost"] for row in found["rows"]] == pytest.approx([0.01] * 3)
    mapped = [{**row, "value": kept.get(row["value"], row["value"])} for row in scores]
    right = by_hand(rows, mapped)
    vote = found["juries"][1]["right"]["value"]
    assert vote == pytest.approx(right(["good", "confused", "guess"]))
    labels = {"bug", "praise", "question"}
    for source in (tmp_path / "run", run):
        learned = (await fit(rows, scores=[source], aggregator="ridge")).evaluator
        assert {aspect.name for aspect in learned.aspects} == {f"intent/{x}" for x in labels}
        assert set(learned.features) == {f"intent/{x}/{y}" for x in names for y in labels}


def recorded(name):
    """Ratings and judges' labels of a set of the alternative annotator test, as words."""
    rows = benchmark(f"alttest/{name}.jsonl.gz")
    word = {None: None, **{float(at): f"c{at}" for at in range(17)}}
    given = {row["id"]: row["annotators"]["label"] for row in rows}
    people = [
        {"id": id_, "annotators": {"label": [word[one] for one in own]}}
        for id_, own in given.items()
    ]
    scores = [
        {"id": row["id"], "aspect": f"{judge}/label", "value": word[one]}
        for row in rows
        for judge, one in row["metrics"].items()
    ]
    return people, scores


def test_votes_of_recorded_judges_are_as_counted_by_others(tmp_path):
    """Means over texts of the share of raters who agree: .585 for the best judge, .538 by vote."""
    juries = show(tmp_path, *recorded("mtbench"))["juries"]
    found = {one["name"]: one["right"]["value"] for one in juries}
    assert found["gpt-4o alone"] == pytest.approx(0.585, abs=5e-4)
    assert found["vote"] == pytest.approx(0.538, abs=5e-4)


def test_confusion_tables_of_recorded_judges_are_worth_as_much_as_others_found(tmp_path):
    """With naive Bayes over confusions .657, and .632 from 50 texts; .596 for the best judge."""
    people, scores = recorded("lgbteen")
    source = write_lines(tmp_path / "s.jsonl", scores)
    for held_out, expected in (({}, 0.657), ({"train_fraction": 50 / len(people)}, 0.632)):
        fitted = fit_sync(people, scores=[source], aggregator="ridge", **held_out)
        found = fitted.report["held_out"]["labels"]
        assert found["low"] < expected <= found["value"]
