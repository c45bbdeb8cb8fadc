"""The table of agreement, from files and examples."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from tests.benchmark_data import benchmark
from textassay import agreement
from textassay.agreement.records import read_scores
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError, UnknownName
from textassay.runtime.messages import Example, Score


def examples(n=6):
    """Examples rated 0, 1, ..., n - 1 for coherence, in two groups and three systems."""
    return [
        Example(id=f"e{i}", output="text", group=f"g{i % 2}", system=f"s{i % 3}",
                human={"coherence": float(i), "fluency": float(-i)})
        for i in range(n)
    ]  # fmt: skip


def written(path, rows, end="\n"):
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + end,
        encoding="utf-8",
    )
    return path


def row(i, value, aspect="coherence", **more):
    return {"id": f"e{i}", "aspect": aspect, "value": value, **more}


def test_equal_names_pair_and_the_json_is_as_fixed(tmp_path):
    path = written(
        tmp_path / "scores.jsonl",
        [row(i, v) for i, v in enumerate([0, 2, 1, 3, None])] + [row(0, 1, "new")],
    )
    table = agreement.agreement_table(
        agreement.read_scores(path), examples(), levels=("dataset", "group"), bootstrap=40, seed=1
    )
    document = json.loads(json.dumps(table.as_dict(), allow_nan=False))
    first, second = document["rows"]
    assert list(first) == [
        "aspect", "human", "level", "n", "groups", "groups_skipped", "coverage", "pearson",
        "spearman", "kendall", "ci", "systems", "note",
    ]  # fmt: skip
    shown = ["coherence", "coherence", "dataset", 4, 2, 0, 4 / 6]
    assert [first[key] for key in list(first)[:7]] == shown
    assert first["spearman"] == pytest.approx(0.8)
    assert first["ci"] == {"pearson": None, "spearman": None, "kendall": None}
    assert first["systems"] == 3
    assert first["note"] == "no interval: needs at least 5 groups, found 2"
    assert (second["level"], second["groups"], second["pearson"]) == ("group", 2, 1.0)


@pytest.mark.parametrize("table", [list, pd.DataFrame], ids=["rows", "data frame"])
def test_a_table_in_memory_has_scores_and_ratings(table):
    """As a file of both has them, whatever its columns are called."""
    rows = [
        {"id": f"e{i}", "metrics": {"c": i % 4}, "human": {"c": i % 3}, "scores": "x"}
        for i in range(12)
    ]
    found = agreement.agreement_table(table(rows), table(rows), bootstrap=0)
    assert (found.rows[0].aspect, found.rows[0].agreement.n) == ("c", 12)


def test_no_interval_without_resamples_and_undefined_is_null():
    scores = {"coherence": {"e0": 1.0, "e1": 1.0, "stray": 1.0}}
    table = agreement.agreement_table(scores, examples(), levels=("system",), bootstrap=0)
    (found,) = table.as_dict()["rows"]
    assert [found[name] for name in ("pearson", "spearman", "kendall", "ci")] == [None] * 4
    assert (found["n"], table.unknown_ids) == (2, 1)


def test_several_scores_may_be_held_against_one_human_aspect():
    values = {f"e{i}": float(i) for i in range(6)}
    scores = {"a": values, "b": values, "fluency": values, "unrated": values}
    table = agreement.agreement_table(
        scores, examples(), aspect_map=["a=coherence", "b=coherence", "b=fluency"]
    )
    assert [(r.aspect, r.human, round(r.agreement.kendall)) for r in table.rows] == [
        ("a", "coherence", 1),
        ("b", "coherence", 1),
        ("b", "fluency", -1),
        ("fluency", "fluency", -1),
    ]
    mapped = agreement.agreement_table(scores, examples(), aspect_map={"a": "coherence"})
    assert mapped.rows[0].human == "coherence"


def test_a_later_line_replaces_an_earlier_one(tmp_path):
    lines = [row(0, 1), row(1, 2), row(0, 5), row(1, None, outcome="error"), row(2, 3)]
    assert agreement.read_scores(written(tmp_path / "s.jsonl", lines)) == {
        "coherence": {"e0": 5.0, "e1": None, "e2": 3.0}
    }


def test_a_run_folder_is_read_while_it_grows(tmp_path):
    """Its torn last line is dropped; elsewhere a torn line is an error."""
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    path = written(tmp_path / "scores.jsonl", [row(0, 1), '{"id": "e1", "asp'], end="")
    assert (
        agreement.read_scores(tmp_path) == agreement.read_scores(path) == {"coherence": {"e0": 1.0}}
    )
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DataError, match="line 2"):
        agreement.read_scores(path)
    (tmp_path / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(RunFolderError, match="format 2"):
        agreement.read_scores(tmp_path)


@pytest.mark.parametrize(("added", "says"), [("\n", "blank line"), ("\ufeff", "byte order mark")])
def test_an_edited_run_is_read_by_the_rules_of_resume(tmp_path, added, says):
    (tmp_path / "manifest.json").write_text('{"format": 1}')
    line = json.dumps(row(0, 1))
    (tmp_path / "scores.jsonl").write_text(f"{line}\n{added}{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"2: unexpected {says}"):
        agreement.read_scores(tmp_path)


def test_gzip_blank_lines_a_byte_order_mark_and_whole_ids_are_taken(tmp_path):
    path = tmp_path / "s.jsonl.gz"
    first, second = (f'{{"id": {id_}, "aspect": "ä", "value": ' for id_ in ("7", '"8"'))
    path.write_bytes(gzip.compress(f"\ufeff{first}1}}\r\n\n{second}-2.5}}".encode()))
    assert agreement.read_scores(path) == {"ä": {"7": 1.0, "8": -2.5}}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "broken JSON"),
        ("[1]", "must be an object"),
        ('{"aspect": "a", "value": 1}', "'id'"),
        ('{"id": "", "aspect": "a", "value": 1}', "'id'"),
        ('{"id": "x", "aspect": null, "value": 1}', "'aspect'"),
        ('{"id": "x", "aspect": "a"}', "'value'.*missing"),
        ('{"id": "x", "aspect": "a", "value": "3"}', "'value'.*'3'"),
        ('{"id": "x", "aspect": "a", "value": [3]}', "'value'.*3"),
        ('{"id": "x", "aspect": "a", "value": NaN}', "'value'.*finite"),
        ('{"id": "x", "aspect": "a", "value": 1e999}', "finite"),
        ('{"id": "x", "aspect": "a", "value": 1' + "0" * 400 + "}", "'value'.*64 bits"),
    ],
)
def test_a_bad_line_names_file_line_and_field(tmp_path, line, says):
    path = written(tmp_path / "judge.jsonl", [row(0, 1), line])
    with pytest.raises(DataError, match=rf"judge\.jsonl, line 2.*{says}"):
        agreement.read_scores(path)


def test_a_file_without_scores_is_refused_with_the_reason(tmp_path):
    with pytest.raises(RunFolderError, match="contains no scores"):
        agreement.read_scores(tmp_path)
    (tmp_path / "bytes.jsonl").write_bytes(b"{\x81\x8d\n")
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b'{"id": "x"}\n' * 1000)[:40])
    for name, says in (
        ("absent.jsonl", "cannot be read"),
        ("bytes.jsonl", "line 1: is not UTF-8"),
        ("broken.jsonl.gz", "damaged gzip"),
    ):
        with pytest.raises(DataError, match=says):
            agreement.read_scores(tmp_path / name)


def test_scores_and_examples_are_taken_as_they_come(tmp_path):
    pandas = pytest.importorskip("pandas")
    values = {f"e{i}": float(i % 4) for i in range(6)}
    rows = [row(i, values[f"e{i}"]) for i in range(6)]
    path = written(tmp_path / "judge.jsonl", rows)
    dicts = [one.model_dump(exclude={"meta"}) for one in examples()]
    people = written(tmp_path / "people.jsonl", dicts)

    class Run:
        scores = tuple(
            Score(
                id=one["id"], aspect="coherence", value=one["value"], outcome="scored",
                scale=(0, 5), how="text", signature="s",
            )
            for one in rows
        )  # fmt: skip

    expected = agreement.agreement_table({"coherence": values}, examples()).as_dict()
    for scores in (path, str(path), Run()):
        for data in (people, pandas.DataFrame(dicts), dicts):
            assert agreement.agreement_table(scores, data).as_dict() == expected


SCORES = {"coherence": {f"e{i}": float(i) for i in range(6)}}


@pytest.mark.parametrize(
    ("scores", "arguments", "error", "says"),
    [
        (SCORES, {"levels": ("summary",)}, UnknownName, "summary.*dataset, group, system"),
        (SCORES, {"aspect_map": ["coherance=coherence"]}, UnknownName, "coherance.*coherence"),
        (SCORES, {"aspect_map": ["coherence=clarity"]}, UnknownName, "clarity.*coherence, fluency"),
        (SCORES, {"aspect_map": ["coherence"]}, ConfigurationError, "SCORE=HUMAN"),
        ({"rouge": SCORES["coherence"]}, {}, ConfigurationError, "rouge.*aspect_map="),
        ({"coherence": {"other": 1.0}}, {}, DataError, "no id occurs in both.*'other'.*'e0'"),
        ({}, {}, DataError, "no scores were found"),
    ],
)
def test_scores_that_cannot_be_joined_say_why(scores, arguments, error, says):
    with pytest.raises(error, match=says):
        agreement.agreement_table(scores, examples(), **arguments)


def test_a_level_that_the_data_cannot_serve_says_why():
    people = [Example(id=f"e{i}", output="t", human={"coherence": float(i)}) for i in range(3)]
    with pytest.raises(ConfigurationError, match="'group' in the data, and no example"):
        agreement.agreement_table(SCORES, people, levels=("group",))
    mixed = [*people, Example(id="e9", output="t", group="g", human={"coherence": 1})]
    with pytest.raises(DataError, match="example 'e0' has none"):
        agreement.agreement_table(SCORES, mixed, levels=("group",))
    with pytest.raises(DataError, match="no human ratings"):
        agreement.agreement_table(SCORES, [Example(id="e0", output="t")])


class Recorded:
    """What holds scores in memory, as a run does."""

    def __init__(self, scores):
        self.scores = scores


def verdicts(id_, met, tags=()):
    evidence = [
        {"text": "c", "criterion": name, "met": said, "tags": list(tags)}
        for name, said in met.items()
    ]
    return Score(id=id_, aspect="rubric", value=0.5, evidence=tuple(evidence))


@pytest.mark.parametrize(("system", "accuracy"), [("GPT-Pilot", 0.866), ("OpenHands", 0.902)])
def test_devai_as_rubrics_has_the_published_agreement(system, accuracy):
    tasks = {}
    for row in benchmark("devai/devai.jsonl.gz"):
        if row["system"] == system and "human" in row and "metrics" in row:
            tasks.setdefault(row["group"], []).append(row)
    data = [
        {"id": task, "output": "", "rubric": [
            {"criterion": r["criterion"], "prerequisites": r["prerequisites"],
             "category": r["category"], "satisfied": r["human"]["satisfied"]} for r in rows]}
        for task, rows in tasks.items()
    ]  # fmt: skip
    judged = [
        verdicts(task, {str(at): row["metrics"]["agent_as_a_judge"] for at, row in enumerate(rows)})
        for task, rows in tasks.items()
    ]
    table = agreement.agreement_table(Recorded(judged), data, bootstrap=50)
    [found] = table.labels
    assert (found.aspect, found.agreement.n, found.agreement.groups) == ("criteria", 359, 54)
    assert found.agreement.measures["accuracy"].value == pytest.approx(accuracy, abs=6e-4)
    assert table.unknown_ids == 0


def test_criteria_are_shown_beside_other_ratings_and_by_tag():
    """Missing verdicts, ties of raters and criteria without a label are left out."""
    criteria = [
        {"criterion": "a", "human": 1, "tags": ["t"]}, {"criterion": "b", "human": 0.75},
        {"criterion": "c", "human": 0.5}, {"criterion": "d"},
    ]  # fmt: skip
    data = [
        {"id": f"x{at}", "output": "", "human": {"rubric": at}, "rubric": criteria}
        for at in range(6)
    ]
    judged = [
        verdicts(
            f"x{at}", {"0": True, "1": None if at == 5 else at > 2, "2": True, "3": True}, ("t",)
        )
        for at in range(6)
    ]
    table = agreement.agreement_table(Recorded(judged), data, bootstrap=0)
    assert [(row.aspect, row.agreement.n) for row in table.rows] == [
        ("rubric", 6),
        ("criteria", 11),
        ("criteria: t", 6),
    ]
    assert table.labels[0].agreement.coverage == pytest.approx(11 / 12)
    assert table.labels[0].agreement.measures["accuracy"].value == pytest.approx(8 / 11)


def test_scores_of_a_spreadsheet_are_read(tmp_path):
    """One line per score, with the decimal comma of a file with semicolons; labels and gaps."""
    path = tmp_path / "scores.csv"
    path.write_text("id;aspect;value\na;tone;4,5\nb;tone;\na;ok;yes\n")
    assert read_scores(path) == {"tone": {"a": 4.5, "b": None}, "ok": {"a": 1.0}}


def test_percentages_are_shares_and_not_mixed_with_other_numbers(tmp_path):
    """Of scores by line and of ratings; each aspect may have its own unit."""
    path = tmp_path / "scores.csv"
    path.write_text("id,aspect,value\na,tone,85%\nb,tone,90 %\na,ok,3\n")
    assert read_scores(path) == {"tone": {"a": 0.85, "b": 0.9}, "ok": {"a": 3.0}}
    data = tmp_path / "data.csv"
    data.write_text("id,output,human.tone\na,x,80%\nb,y,\u22121 %\n")
    (row,) = agreement.agreement_table(path, data, bootstrap=0).rows
    assert row.agreement.n == 2
    path.write_text("id,aspect,value\na,tone,85%\nb,tone,90\n")
    with pytest.raises(DataError, match="line 3, field 'value': is '90', and other rows are in"):
        read_scores(path)


def test_a_score_that_comes_twice_is_reported_with_both_lines(tmp_path, caplog):
    """The last one counts; in lines that were copied from a run it replaces an earlier one."""
    path = tmp_path / "scores.jsonl"
    lines = [{"id": "a", "aspect": "tone", "value": value} for value in (1, 2)]
    for lines_of, told in ((lines, True), ([{**line, "signature": "s"} for line in lines], False)):
        caplog.clear()
        path.write_text("".join(json.dumps(line) + "\n" for line in lines_of))
        assert read_scores(path) == {"tone": {"a": 2.0}}
        assert ("'a' on 'tone' in lines 1 and 2; the last score counts" in caplog.text) is told


def test_the_coefficients_of_two_labels_are_one_number_with_one_interval():
    rng = np.random.default_rng(0)
    human = rng.integers(0, 2, 60)
    judged = np.where(rng.random(60) < 0.8, human, 1 - human)
    data = [
        {"id": f"e{at}", "output": "text", "group": f"g{at // 2}", "human": {"ok": int(label)}}
        for at, label in enumerate(human)
    ]
    scores = {"ok": {f"e{at}": float(label) for at, label in enumerate(judged)}}
    (row,) = agreement.agreement_table(scores, data).as_dict()["rows"]
    assert [row[one] for one in ("pearson", "spearman", "kendall")] == pytest.approx(
        [row["mcc"]] * 3
    )
    assert row["ci"]["pearson"] == tuple(row["ci"]["mcc"]) == row["ci"]["kendall"]
    # a probability is not a label: its correlation differs from the MCC of its label
    scores["ok"] = {id_: 0.1 + 0.7 * label for id_, label in scores["ok"].items()}
    (row,) = agreement.agreement_table(scores, data, threshold=0.5).as_dict()["rows"]
    assert row["ci"]["pearson"] is not None


SCORED_ROWS = [
    {"id": f"q{at}", "output": f"x{at}", "human": {"ok": 1 + at % 5}, "metrics": {"ok": at % 4}}
    for at in range(20)
]


@pytest.mark.parametrize("name", ["data.jsonl", "data.json"])
def test_a_data_set_whose_first_row_has_no_score_is_one(tmp_path, name):
    """As results of other tools are imported, a failed metric first."""
    rows = [{**SCORED_ROWS[0], "metrics": {}}, *SCORED_ROWS[1:]]
    rows[0].pop("metrics")
    path = tmp_path / name
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(lines if name.endswith("l") else json.dumps(rows))
    [found] = agreement.agreement_table(path, path, bootstrap=0).rows
    assert found.agreement.n == 19


def test_whole_numbers_with_a_decimal_are_the_same_ids(tmp_path):
    """Data frames with a gap write them so; in a CSV file they may also be names such as 2.0."""
    rows = [{"id": at, "human": {"ok": at % 5}} for at in range(20)]
    path = tmp_path / "scores.jsonl"
    path.write_text(
        "".join(json.dumps({"id": float(at), "aspect": "ok", "value": at % 4}) + "\n"
                for at in range(20))
    )  # fmt: skip
    [found] = agreement.agreement_table(path, rows, bootstrap=0).rows
    assert found.agreement.n == 20
    with pytest.raises(DataError, match="remove it"):
        agreement.agreement_table(path, [{**row, "id": f"{row['id']}.0"} for row in rows])


@pytest.mark.parametrize("content", ["id,ok,tone\nq1,3,4\n", "id,value\nq1,3\n"])
def test_a_file_without_scores_is_refused_with_what_it_needs(tmp_path, content):
    path = tmp_path / "scores.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=r"has the fields 'id', 'aspect' and 'value', or"):
        agreement.agreement_table(path, SCORED_ROWS, bootstrap=0)
