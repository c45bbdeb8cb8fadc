"""`check` reads the tables that people have without a flag, or asks with the command to type."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import textassay
from tests.checking.tables import N, Text, texts, written
from textassay.checking.verdicts import VerdictRow
from textassay.runtime.column_names import RATERS
from textassay.runtime.errors import ConfigurationError, DataError, TextassayError, UnknownName

LIKERT = ("strongly disagree", "disagree", "neutral", "agree", "strongly agree")

GERMAN = ("sehr schlecht", "schlecht", "mittel", "gut", "sehr gut")
LEVELS = ("low", "medium", "high")


def german(yes: bool) -> str:
    return "ja" if yes else "nein"


def comma(number: float) -> str:
    return f"{number:.1f}".replace(".", ",")


class Kind(NamedTuple):
    """A kind of table, and what must be found in it."""

    name: str
    header: Sequence[str]
    row: Callable[[Text], Sequence[Any]]
    judge: str
    human: str
    labels: tuple[str, ...] = ()
    scale: tuple[float, float] = (1.0, 5.0)
    raters: int = 1
    options: dict[str, str] = {}


KINDS = [
    Kind("decimal-commas.csv", ["Nr", "Modell-Bewertung", "Mensch"],
         lambda t: (t.number, comma(t.judge), comma(t.raters[0])), "Modell-Bewertung", "Mensch",
         options={"separator": ";"}),
    Kind("cp1252.csv", ["Übersetzung", "Prüfer", "Richter"],
         lambda t: (f"Straße {t.number}", t.raters[0], t.judge), "Richter", "Prüfer",
         options={"separator": ";", "encoding": "cp1252"}),
    Kind("german.csv", ["text", "LLM", "Mensch"],
         lambda t: (f"t{t.number}", german(t.passes), german(t.good)), "LLM", "Mensch",
         ("nein", "ja")),
    Kind("french.csv", ["juge", "humain"],
         lambda t: ("oui" if t.passes else "non", "Oui" if t.good else "Non"), "juge", "humain",
         ("non", "oui")),
    Kind("spanish.csv", ["juez", "humano"],
         lambda t: ("sí" if t.passes else "no", "Si" if t.good else "No"), "juez", "humano",
         ("no", "si"), options={"separator": ";"}),
    Kind("two-languages.csv", ["judge", "expert"],
         lambda t: ("true" if t.passes else "false", german(t.good)), "judge", "expert",
         ("nein", "ja")),
    Kind("pass-fail.csv", ["verdict", "label"],
         lambda t: ("pass" if t.passes else "fail", "PASS" if t.good else "FAIL"), "verdict",
         "label", ("fail", "pass")),
    Kind("zero-one.csv", ["predicted", "gold"], lambda t: (str(t.passes), int(t.good)),
         "predicted", "gold", ("no", "yes")),
    Kind("correct.csv", ["model_answer", "llm_judge", "correct?"],
         lambda t: (f"x{t.number}", "correct" if t.passes else "incorrect",
                    "yes" if t.good else "no"), "llm_judge", "correct?", ("no", "yes")),
    Kind("negated.csv", ["judge", "human"],
         lambda t: ("not hallucinated" if t.passes else "hallucinated",
                    "not hallucinated" if t.good else "hallucinated"), "judge", "human",
         ("hallucinated", "not hallucinated")),
    Kind("y-true.csv", ["y_true", "y_pred"], lambda t: (int(t.good), int(t.passes)), "y_pred",
         "y_true", ("no", "yes")),
    Kind("three-raters.csv", ["answer", "gpt-4o", "user_1", "user_2", "user_3"],
         lambda t: (f"a{t.number}", t.judge, *t.raters), "gpt-4o", "user_1, user_2, user_3",
         raters=3),
    Kind("first-names.csv", ["judge", "anna", "ben", "clara"], lambda t: (t.judge, *t.raters),
         "judge", "anna, ben, clara", raters=3),
    Kind("with-their-mean.csv", ["rater1", "rater2", "rater3", "rater_mean", "llama-3"],
         lambda t: (*t.raters, round(sum(t.raters) / 3, 2), t.judge), "llama-3",
         "rater1, rater2, rater3", raters=3),
    Kind("percent.csv", ["item", "judge_score", "expert_score"],
         lambda t: (t.number, f"{20 * t.judge} %", f"{20 * t.raters[0]}%"), "judge_score",
         "expert_score", scale=(0.0, 1.0)),
    Kind("fractions.csv", ["AI rating", "human rating"],
         lambda t: (f"{t.judge}/5", f"{t.raters[0]} out of 5"), "AI rating", "human rating"),
    Kind("stars.csv", ["llm", "reviewer"], lambda t: ("★" * t.judge, f"{t.raters[0]} stars"),
         "llm", "reviewer"),
    Kind("likert.csv", ["gpt", "expert"],
         lambda t: (f"{t.judge} - {LIKERT[t.judge - 1]}", f"{t.raters[0]}: agree"), "gpt",
         "expert"),
    Kind("tabs.tsv", ["score", "rating"], lambda t: (t.judge, t.raters[0]), "score", "rating",
         options={"separator": "\t"}),
    Kind("utf-16.csv", ["judge", "human"], lambda t: (t.judge, t.raters[0]), "judge", "human",
         options={"separator": "\t", "encoding": "utf-16"}),
    Kind("other-numbers.csv", ["id", "llm_score", "latency_ms", "tokens", "human_score"],
         lambda t: (t.number, t.judge, 17.5 * t.number % 90, t.number * 7 % 400, t.raters[0]),
         "llm_score", "human_score"),
    Kind("index.csv", ["", "score", "human"], lambda t: (t.number, t.judge, t.raters[0]), "score",
         "human"),
    Kind("japanese.csv", ["人手評価", "LLM評価"], lambda t: (t.raters[0], t.judge), "LLM評価",
         "人手評価"),
    Kind("o3.csv", ["o3-mini", "ground truth"], lambda t: (t.judge, t.raters[0]), "o3-mini",
         "ground truth"),
    Kind("emoji.csv", ["bot", "customer"],
         lambda t: ("👍" if t.passes else "👎", "👍" if t.good else "👎"), "bot", "customer",
         ("👎", "👍")),
    Kind("skin-tones.csv", ["bot", "customer"],
         lambda t: ("👍🏽" if t.passes else "👎🏿", "👍" if t.good else "👎"), "bot", "customer",
         ("👎", "👍")),
    Kind("marks.csv", ["bot", "customer"],
         lambda t: ("✔️" if t.passes else "✖️", "✅" if t.good else "❌"), "bot", "customer",
         ("❌", "✅")),
    Kind("star-emoji.csv", ["llm", "a very long question about the answer [rating]"],
         lambda t: ("⭐️" * t.judge, "★" * t.raters[0] + "☆" * (5 - t.raters[0])), "llm",
         "a very long question about the answer [rating]"),
    Kind("notes.md", ["judge", "human"], lambda t: (t.judge, t.raters[0]), "judge", "human",
         options={"separator": "|"}),
    Kind("who-rated.csv", ["id", "user", "rating", "judge", "judge_confidence"],
         lambda t: (t.number, ["anna", "ben", "carl"][t.number % 3], t.raters[0], t.judge,
                    t.number / N), "judge", "rating"),
    Kind("excel-german.csv", ["LLM-Judge", "Fachexperte"],
         lambda t: ("WAHR" if t.passes else "FALSCH", "WAHR" if t.good else "FALSCH"),
         "LLM-Judge", "Fachexperte", ("falsch", "wahr"), options={"separator": ";"}),
    Kind("categories.csv", ["claude-3", "annotator"],
         lambda t: tuple(["bad", "ok", "good"][(n > 2) + (n > 3)] for n in (t.judge, t.raters[0])),
         "claude-3", "annotator"),
    Kind("likert-words.csv", ["statement", "llm response", "participant response"],
         lambda t: (f"s{t.number}", LIKERT[t.judge - 1].title(), LIKERT[t.raters[0] - 1]),
         "llm response", "participant response"),
    Kind("german-words.csv", ["Text", "Modell", "Mensch"],
         lambda t: (f"t{t.number}", GERMAN[t.judge - 1], GERMAN[t.raters[0] - 1]), "Modell",
         "Mensch", options={"separator": ";"}),
    Kind("letter-grades.csv", ["essay_id", "AI grade", "Teacher grade"],
         lambda t: (t.number, "FDCBA"[t.judge - 1], ["F", "D", "C-", "B+", "A"][t.raters[0] - 1]),
         "AI grade", "Teacher grade"),
    Kind("answers-a-to-d.csv", ["llm", "annotator"],
         lambda t: ("ABCD"[t.judge // 2 + 1], "ABCD"[t.raters[0] // 2 + 1]), "llm", "annotator",
         ("b", "c", "d")),
    Kind("spanish-questions.csv", ["pregunta", "¿Correcto según el juez?",
                                   "¿Correcto según la persona?"],
         lambda t: (f"¿Qué es {t.number // 2}?", "Sí" if t.passes else "No",
                    "Sí" if t.good else "No"),
         "¿Correcto según el juez?", "¿Correcto según la persona?", ("no", "sí")),
    Kind("levels-in-model.csv", ["ticket", "Model", "Analyst"],
         lambda t: (f"t{t.number}", LEVELS[t.judge // 2], LEVELS[t.raters[0] // 2]), "Model",
         "Analyst", ("high", "low", "medium")),
    Kind("polish.csv", ["pytanie", "ocena modelu", "ocena człowieka"],
         lambda t: (f"Czy jaźń {t.number // 2}?", "Tak" if t.passes else "Nie",
                    "Tak" if t.good else "Nie"),
         "ocena modelu", "ocena człowieka", ("nie", "tak"),
         options={"separator": ";", "encoding": "cp1250"}),
    Kind("russian.csv", ["вопрос", "оценка модели", "оценка человека"],
         lambda t: (f"вопрос {t.number}", t.judge, t.raters[0]), "оценка модели",
         "оценка человека", options={"separator": ";", "encoding": "cp1251"}),
    Kind("chinese.csv", ["问题", "人工智能评分", "人工评分"],
         lambda t: (f"问题{t.number}", t.judge, t.raters[0]), "人工智能评分", "人工评分",
         options={"encoding": "gb2312"}),
    Kind("a-name-twice.csv", ["score", "note", "human", "note"],
         lambda t: (t.judge, "a note", t.raters[0], "another note"), "score", "human"),
]  # fmt: skip


def only_row(data: Any, **given: Any) -> VerdictRow:
    [row] = textassay.check(data, **given).rows
    return row


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_table_is_read_without_a_flag(tmp_path, kind):
    row = only_row(written(tmp_path / kind.name, kind.header, kind.row, **kind.options))
    pair = row.pair
    assert (pair.judge, pair.human) == (kind.judge, kind.human)
    assert (row.n, pair.labels, pair.raters.shape[1]) == (N, kind.labels, kind.raters)
    if kind.labels:
        assert pair.judge_labels
        assert row.agreement["accuracy"].value > 0.7
    else:
        assert pair.scale == pair.judge_scale == kind.scale
        assert row.agreement["pearson"].value > 0.7


def test_an_excel_table_is_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("Judge", "Human"), *((t.judge, t.raters[0]) for t in texts())]:
        book.active.append(row)
    book.save(tmp_path / "ratings.xlsx")
    assert only_row(tmp_path / "ratings.xlsx").n == N


def test_a_sheet_of_remarks_beside_the_table_is_not_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["How to read this file"])
    sheet = book.create_sheet("Data")
    for row in [("Judge", "Human"), *((t.judge, t.raters[0]) for t in texts())]:
        sheet.append(row)
    book.save(tmp_path / "ratings.xlsx")
    found = textassay.check(tmp_path / "ratings.xlsx")
    assert found.rows[0].n == N
    assert any("'Data', the only one with a table" in note.text for note in found.notes)


@pytest.mark.parametrize("word", ["Total", "Mittelwert:", "média"])
def test_a_last_row_that_sums_up_the_others_is_no_text(tmp_path, word):
    table = written(tmp_path / "a.csv", ["text", "judge", "human"], lambda t: (
        f"t{t.number}", t.judge, t.raters[0]))  # fmt: skip
    table.write_text(f"{table.read_text(encoding='utf-8')}{word},400,391\n", encoding="utf-8")
    found = textassay.check(table)
    assert (found.rows[0].n, found.rows[0].pair.scale) == (N, (1.0, 5.0))
    assert any("sums up the others" in note.text for note in found.notes)


@pytest.mark.parametrize("key", ["documents", "items", "outputs", "references"])
def test_a_list_in_an_object_is_the_table_whatever_its_key(tmp_path, key):
    rows = [{"judge": t.judge, "human": t.raters[0]} for t in texts()]
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "model": "gpt-4o", key: rows}))
    assert only_row(tmp_path / "a.json").n == N


@pytest.mark.parametrize("words", [
    ("poor", "fair", "good", "very good", "excellent"), ("f", "d", "c", "b", "a+"), LIKERT,
])  # fmt: skip
@pytest.mark.parametrize("has_numbers", [True, False])
def test_every_word_of_a_scale_is_a_step_of_its_own(tmp_path, words, has_numbers):
    table = written(tmp_path / "a.csv", ["judge", "human"], lambda t: (
        t.judge if has_numbers else words[t.judge - 1], words[t.raters[0] - 1]))  # fmt: skip
    pair = only_row(table).pair
    assert pair.scores.tolist() == [t.judge for t in texts()]
    assert pair.ratings.tolist() == [t.raters[0] for t in texts()]


def test_words_of_a_finer_scale_than_any_known_one_are_labels(tmp_path):
    words = ("ok", "good", "great", "perfect", "bad")
    table = written(tmp_path / "a.csv", ["judge", "human"], lambda t: (
        words[t.judge - 1], words[t.raters[0] - 1]))  # fmt: skip
    assert set(only_row(table).pair.labels) == set(words)


def test_a_column_of_the_best_system_does_not_hide_who_wrote_the_text(tmp_path):
    systems = ("claude", "gpt-4o", "llama", "mistral")
    table = written(tmp_path / "a.csv", ["model", "judge", "human", "best_model"], lambda t: (
        systems[t.number % 4], t.judge, t.raters[0], systems[t.number * 7 % 4]))  # fmt: skip
    assert len(set(only_row(table).pair.systems.tolist())) == 4


@pytest.mark.parametrize(("name", "further", "last"), [
    ("a.csv", [], "t,4,4"), ("a.csv", ["human"], "t,4,4,4"), ("a.csv", [], "mean,4,4"),
    ("a.txt", [], "t,4,4"),
])  # fmt: skip
def test_a_command_is_proposed_only_if_it_reads_the_same_table(tmp_path, name, further, last):
    table = written(tmp_path / name, ["id", "judge", "human", *further], lambda t: (
        f"t{t.number}", t.judge, t.raters[0], *([t.raters[1]] if further else [])))  # fmt: skip
    table.write_text(f"{table.read_text(encoding='utf-8')}{last}\n", encoding="utf-8")
    others = [one for one in textassay.check(table).next if not one.startswith("textassay check")]
    assert bool(others) == (name == "a.csv" and not further and last != "mean,4,4")


def test_a_file_of_one_column_says_what_separates_columns(tmp_path):
    (tmp_path / "a.txt").write_text("judge human\n4 5\n3 3\n")
    with pytest.raises(ConfigurationError, match="commas, semicolons, tabs or bars separate"):
        textassay.check(tmp_path / "a.txt")


def test_the_line_that_excel_writes_for_itself_names_the_separator(tmp_path):
    rows = "\r".join(f"{t.judge};{t.raters[0]}" for t in texts())
    (tmp_path / "a.csv").write_bytes(f"sep=;\rjudge;human\r{rows}".encode())
    assert only_row(tmp_path / "a.csv").n == N


def test_several_judges_have_a_row_each_and_the_better_one_comes_first(tmp_path):
    table = written(
        tmp_path / "a.csv", ["claude-sonnet", "gpt-4o", "human"],
        lambda t: (t.other_judge, t.judge, t.raters[0]),
    )  # fmt: skip
    assert [row.pair.judge for row in textassay.check(table).rows] == ["gpt-4o", "claude-sonnet"]


def test_judges_are_held_against_ratings_of_the_same_aspect(tmp_path):
    table = written(
        tmp_path / "a.csv",
        ["human_coherence", "human_fluency", "gpt_coherence", "gpt_fluency"],
        lambda t: (t.raters[0], t.raters[1], t.judge, t.other_judge),
    )
    found = {(row.pair.judge, row.pair.human) for row in textassay.check(table).rows}
    assert found == {("gpt_coherence", "human_coherence"), ("gpt_fluency", "human_fluency")}


def test_one_row_per_rating_becomes_a_column_per_rater(tmp_path):
    rows = [
        {"item_id": t.number, "rater": name, "rating": rating, "judge_score": t.judge}
        for t in texts()
        for name, rating in zip("abc", t.raters, strict=True)
    ]
    row = only_row(rows)
    assert (row.n, row.pair.human, row.pair.raters.shape) == (N, "a, b, c", (N, 3))
    assert only_row(rows, human="a,b").pair.human == "a, b"


def test_rows_of_one_text_by_unknown_people_count_as_one_source():
    rows = [
        {"id": f"t{t.number}", "who": name, "rating": rating, "judge_score": t.judge}
        for t in texts()
        for name, rating in zip("abc", t.raters, strict=True)
    ]
    row = only_row(rows)
    assert (row.n, row.groups) == (3 * N, N)


def test_one_row_per_score_becomes_a_judge_per_name():
    rows = [
        {"id": t.number, "judge": name, "score": score, "human": t.raters[0]}
        for t in texts()
        for name, score in (("gpt-4o", t.judge), ("claude", t.other_judge))
    ]
    found = textassay.check(rows).rows
    assert [(row.pair.judge, row.n) for row in found] == [
        ("gpt-4o", N), ("claude", N)
    ]  # fmt: skip


RATINGS_IN_ONE_CELL = {
    "a list": lambda a, b: [a, b],
    "a list with a gap": lambda a, b: [a, b, None],
    "a list as text": lambda a, b: f"[{a}, {b}]",
    "a list as numpy writes it": lambda a, b: f"[{a} {b}]",
    "objects": lambda a, b: [{"rater": "ann", "score": a}, {"rater": "bob", "score": b}],
}


@pytest.mark.parametrize("kind", RATINGS_IN_ONE_CELL)
@pytest.mark.parametrize("name", ["human", "annotations", "ratings"])
def test_ratings_of_several_raters_in_one_cell_are_a_column_each(kind, name):
    cell = RATINGS_IN_ONE_CELL[kind]
    row = only_row([{"gpt": t.judge, name: cell(*t.raters[:2])} for t in texts()])
    raters = row.pair.raters[:, :2]
    assert raters.tolist() == [list(map(float, t.raters[:2])) for t in texts()]
    assert row.pair.kind == "number"


def test_objects_within_objects_are_columns_and_never_labels():
    rows = [{"eval": {"llm": {"score": t.judge}, "human": {"score": t.raters[0]}}} for t in texts()]
    row = only_row(rows)
    assert (row.pair.judge, row.pair.human) == ("eval.llm.score", "eval.human.score")
    assert row.pair.kind == "number"


def test_texts_on_which_labels_are_split_are_left_out_and_counted():
    rows = [
        {"judge": "yes" if n % 2 else "no", "rater_1": "yes" if n % 2 else "no",
         "rater_2": "no" if n % 2 == 0 or n < 20 else "yes"}
        for n in range(100)
    ]  # fmt: skip
    found = textassay.check(rows)
    assert found.rows[0].n == 90
    assert any("split on 10 texts" in note.text for note in found.notes)


def test_a_table_without_a_header_is_refused(tmp_path):
    table = written(tmp_path / "a.csv", ["4", "5"], lambda t: (t.judge, t.raters[0]))
    with pytest.raises(DataError, match="contains values instead of names"):
        textassay.check(table)


def test_our_own_format_is_read_with_raters_sources_and_systems(tmp_path):
    lines = (
        {"id": f"{t.number}", "output": f"o{t.number}", "group": f"g{t.number // 4}",
         "system": "ABCD"[t.number % 4], "annotators": {"quality": [*t.raters[:2], None]},
         "metrics": {"gpt/quality": t.judge, "rouge1": 0.1}, "samples": {"gpt": 4}}
        for t in texts()
    )  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    row = only_row(tmp_path / "a.jsonl")
    assert (row.pair.judge, row.pair.human) == ("gpt/quality", "quality")
    assert (row.groups, len(set(row.pair.systems.tolist()))) == (N // 4, 4)


def test_texts_with_an_equal_question_count_as_one_source(tmp_path):
    table = written(
        tmp_path / "a.csv", ["question", "judge", "human"],
        lambda t: (f"q{t.number // 3}", t.judge, t.raters[0]),
    )  # fmt: skip
    assert only_row(table).groups == N // 3
    assert only_row(table, group="question").groups == N // 3


def test_a_missing_value_is_never_a_number(tmp_path):
    def row(t: Text) -> tuple[object, object]:
        return (
            "error" if t.number % 10 == 0 else "" if t.number % 10 == 1 else t.judge,
            "n/a" if t.number % 10 == 2 else t.raters[0],
        )

    row_ = only_row(written(tmp_path / "a.csv", ["judge", "human"], row))
    assert (row_.n, row_.pair.unscored) == (N * 7 // 10, N * 2 // 10)
    # a tenth that has no score leaves open what a mean or a gate would have been
    assert {row_.uses[use].answer for use in ("means", "gate", "texts")} <= {"unknown", "no"}


def test_invalid_is_a_verdict_beside_valid_and_no_verdict_elsewhere():
    beside_valid = [{"judge": w, "human": w} for w in ("valid", "invalid") * 40]
    assert only_row(beside_valid).n == 80
    elsewhere = [
        {"judge": w, "human": n} for w, n in zip(("4", "invalid") * 40, range(80), strict=True)
    ]
    assert (
        only_row([{**one, "human": one["human"] % 5 + 1} for one in elsewhere]).pair.unscored == 40
    )


@pytest.mark.parametrize(
    "header", [("A", "B"), ("score_1", "score_2"), ("model_a", "model_b"), ("x", "y")]
)
def test_names_that_do_not_say_whose_a_column_is_are_asked_for(tmp_path, header):
    table = written(tmp_path / "a.csv", header, lambda t: (t.judge, t.raters[0]))
    with pytest.raises(ConfigurationError) as refusal:
        textassay.check(table)
    typed = f"textassay check {table} --judge {header[0]} --human {header[1]}"
    assert typed in str(refusal.value)
    row = only_row(table, judge=header[0], human=header[1])
    assert (row.pair.judge, row.n) == (header[0], N)


def test_a_table_without_people_says_what_is_needed(tmp_path):
    table = written(tmp_path / "a.csv", ["text", "judge"], lambda t: (f"t{t.number}", t.judge))
    with pytest.raises(ConfigurationError, match="no column with people's ratings"):
        textassay.check(table)


@pytest.mark.parametrize(
    "header",
    [
        ("Quelltext", "Rater A", "Rater B", "Maschine"),
        ("text", "annotator_1", "annotator_2", "bot"),
    ],
)
def test_authors_of_the_texts_are_not_judges_of_them(tmp_path, header):
    table = written(
        tmp_path / "a.csv", header,
        lambda t: (f"t{t.number}", t.raters[0], t.raters[1], "WXYZ"[t.number % 4]),
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="no column with a judge's scores"):
        textassay.check(table)


def test_people_who_rate_different_things_are_not_taken_for_raters_of_one(tmp_path):
    table = written(
        tmp_path / "a.csv", ["human_coherence", "human_fluency", "judge"],
        lambda t: (t.raters[0], t.raters[1], t.judge),
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="--human human_coherence"):
        textassay.check(table)
    assert only_row(table, human="human_fluency").n == N


@pytest.mark.parametrize("column", [*RATERS, "Reviewer ID", "workerId"])
def test_rows_of_several_raters_are_joined_by_id(tmp_path, column):
    """By the names of columns by which data of other commands are."""
    table = tmp_path / "a.csv"
    rows = [
        f"{t.number},{t.judge},{who},{rating}"
        for t in texts(20)
        for who, rating in zip(("ann", "bob"), t.raters[:2], strict=True)
    ]
    table.write_text("\n".join([f"id,judge,{column},rating", *rows]))
    assert only_row(table).n == 20


@pytest.mark.parametrize("rows", [
    [{"id": n, "source": f"An article on {n} cats.", "output": f"Some {n} cats."} for n in "ab"],
    [{"source": "One article for all. " * 4, "output": f"These are {n} cats."} for n in "abc"],
    [{"question": f"What is {n}?", "answer": f"It is {n} of them.", "system": "A"} for n in "ab"],
    [{"output": f"The answer number {n} is long."} | {"note": f"See text {n}."} for n in "abc"],
])  # fmt: skip
def test_a_table_of_texts_alone_has_no_scores_or_ratings(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ConfigurationError, match="found no column with scores or ratings"):
        textassay.check(path)


def test_labels_that_people_do_not_use_are_refused(tmp_path):
    table = written(
        tmp_path / "a.csv", ["judge", "human"],
        lambda t: ("blue" if t.passes else "green", "bad" if t.good else "worse"),
    )  # fmt: skip
    with pytest.raises(DataError, match="not among people's labels"):
        textassay.check(table)


def test_a_name_that_is_not_a_column_is_an_error_with_the_columns(tmp_path):
    table = written(tmp_path / "a.csv", ["judge", "human"], lambda t: (t.judge, t.raters[0]))
    with pytest.raises(UnknownName, match="judge"):
        textassay.check(table, judge="jugde")


def test_a_data_frame_is_read_as_a_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{"judge": t.judge, "human": t.raters[0]} for t in texts()])
    assert only_row(frame).n == N


CELLS = (
    ("yes", "no"), ("1", "2", "5"), ("0", "1"), ("", "n/a", "4"), ("85 %", "20%"), ("4/5", "1/10"),
    ("bad", "ok", "good"), ("error", "5"), ("1,5", "2,0"), ("-3.2", "-1"), ("nan",), ("x" * 200,),
)  # fmt: skip
NAMES = (
    "judge", "human", "gpt-4o", "annotator_1", "annotator_2", "score", "rating", "group", "system",
    "id", "A", "llm_coherence", "human_coherence", "human_fluency", "user", "metrics.x", "human.x",
)  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(CELLS)), min_size=1, max_size=5,
        unique_by=lambda column: column[0],
    ),
    st.sampled_from((1, 3, 12, 40)),
    st.randoms(use_true_random=False),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_table_is_checked_or_refused_in_words(columns, count, random):
    rows = [{name: random.choice(cells) for name, cells in columns} for _ in range(count)]
    # any other exception fails the test
    with suppress(TextassayError):
        found = textassay.check(rows)
        json.dumps(found.to_dict(), allow_nan=False)
        assert str(found)
