"""Converters read what the origins ship: tiny files in the origins' own formats, written here."""

import csv
import json
import pickle

import pytest

from reproduce.command import main
from reproduce.converters import DATA_SETS, converted
from reproduce.plain_pickle import read_plain_pickle
from textassay import Examples
from textassay.runtime.errors import ConfigurationError, DataError


def as_file(path, content):
    """Write what the origin ships: a pickle, lines of JSON or one JSON document, by the name."""
    if path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content, protocol=3))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    return path


def rows_of(name, *files):
    rows = converted(DATA_SETS[name], files)
    Examples(rows).check()
    return rows


def rating(value):
    return {"coherence": value, "consistency": 5, "fluency": 4, "relevance": 3}


def test_summeval(tmp_path):
    """Expert means with their single ratings, crowd apart, articles from BARTScore's pickle."""
    line = {
        "id": "dm-test-1",
        "model_id": "M11",
        "decoded": "A summary.",
        "references": ["One.", "Two."],
        "expert_annotations": [rating(1), rating(2), rating(2)],
        "turker_annotations": [rating(4)] * 5,
    }
    annotations = as_file(tmp_path / "model_annotations.aligned.jsonl", [line])
    articles = as_file(tmp_path / "data.pkl", {"dm-test-1": {"src": "An article."}})
    [row] = rows_of("summeval", annotations, articles)
    assert row["source"] == "An article."
    assert row["human"]["coherence"] == 5 / 3
    assert row["human"]["overall"] == pytest.approx((5 / 3 + 5 + 4 + 3) / 4)
    assert row["annotators"]["coherence"] == [1, 2, 2]
    assert row["crowd"]["fluency"] == [4] * 5
    assert (row["system"], row["group"]) == ("M11", "dm-test-1")
    assert row["references"] == ["One.", "Two."]
    [without] = rows_of("summeval", annotations)
    assert without["source"] is None


def test_topical_chat_of_unieval(tmp_path):
    """The original turn is the reference; UniEval's own scores are recorded."""
    one = {"source": "Hi!", "context": "A fact.", "scores": {"naturalness": 3.0}}
    other = {"system_id": "Argmax Decoding", "system_output": "No."}
    content = [
        one | {"system_id": "Original Ground Truth", "system_output": "Yes."},
        one | other | {"predict_scores": {"naturalness": 0.5}},
    ]
    first, second = rows_of("topical_chat", as_file(tmp_path / "topical_chat.json", content))
    assert first["group"] == second["group"]
    assert second["references"] == ["Yes."]
    assert second["metrics"] == {"unieval/naturalness": 0.5}
    assert second["human"] == {"naturalness": 3.0}


def test_topical_chat_of_usr(tmp_path):
    response = {
        "response": "Yes.",
        "model": "Original Ground Truth",
        "Understandable": [1, 1, 0],
        "Natural": [3, 2, 3],
        "Maintains Context": [3, 3, 3],
        "Engaging": [1, 2, 3],
        "Uses Knowledge": [0, 0, 1],
        "Overall": [5, 4, 3],
    }
    content = [{"context": "Hi!\n", "fact": "A fact.", "responses": [response]}]
    [row] = rows_of("topical_chat", as_file(tmp_path / "tc_usr_data.json", content))
    assert row["human"]["coherence"] == 3
    assert row["annotators"]["groundedness"] == [0, 0, 1]
    assert row["context"] == "A fact."


def test_data_to_text(tmp_path):
    """References once each; rows of one meaning are a group; UniEval's overall is quality."""
    one = {"src": "inform()", "sys_summ": "Text.", "ref_summs": ["A.", "A.", "B."]}
    scores = {"informativeness": 4.5, "naturalness": 3.0, "quality": 4.0}
    pickled = as_file(tmp_path / "data.pkl", {0: one | {"scores": scores}})
    predicted = [{"system_output": "Text.", "predict_scores": {"naturalness": 0.25}}]
    for name in ("sfres", "sfhot"):
        [row] = rows_of(name, pickled, as_file(tmp_path / "result.json", predicted))
        assert row["references"] == ["A.", "B."]
        assert row["metrics"] == {"unieval/naturalness": 0.25}
    [row] = rows_of("bagel", pickled)
    assert row["human"]["quality"] == 4.0
    other = as_file(tmp_path / "other.json", [{"system_output": "Another."}])
    with pytest.raises(DataError, match="another text"):
        rows_of("sfres", pickled, other)


def test_fed(tmp_path):
    """Turns and dialogues are separate; N/A is not a number; turns belong to their dialogue."""
    turn = {
        "context": "User: Hi!",
        "response": "System: Hello.",
        "system": "Meena",
        "annotations": {"Interesting": [2, "N/A (not applicable)", 1]},
    }
    whole = {
        "context": "User: Hi!\nSystem: Hello.\nUser: Bye.",
        "system": "Meena",
        "annotations": {"Error recovery": [1, 2]},
    }
    other = whole | {"context": "User: Good day."}
    file = as_file(tmp_path / "fed_data.json", [other, turn, whole])
    [row] = rows_of("fed_turn", file)
    assert (row["human"], row["annotators"]) == ({"interesting": 1.5}, {"interesting": [2.0, 1.0]})
    dialogues = rows_of("fed_dialog", file)
    assert [one["group"] for one in dialogues] == ["fed-000", "fed-001"]
    assert row["group"] == "fed-001"
    assert dialogues[1]["human"] == {"error_recovery": 1.5}


def test_qags(tmp_path):
    """The share of the sentences that most workers call consistent."""

    def sentence(*answers):
        responses = [{"worker_id": n, "response": a} for n, a in enumerate(answers)]
        return {"sentence": "S.", "responses": responses}

    sentences = [sentence("yes", "yes", "no"), sentence("no", "no", "yes")]
    line = {"article": "An article.", "summary_sentences": sentences}
    [row] = rows_of("qags_xsum", as_file(tmp_path / "mturk_xsum.jsonl", [line]))
    assert row["human"]["consistency"] == 0.5
    assert row["output"] == "S. S."
    assert len(rows_of("qags_cnndm", as_file(tmp_path / "mturk_cnndm.jsonl", [line]))) == 1


def test_openmeva(tmp_path):
    story = {
        "prompt": "He ran .",
        "gold_response": "He fell .",
        "gen": {"gpt": {"text": "He sat .", "score": [1, 2, 3, 4, 5]}},
    }
    [row] = rows_of("openmeva", as_file(tmp_path / "mans_roc.json", {"7": story}))
    assert row["human"] == {"overall": 3}
    assert (row["system"], row["references"]) == ("gpt", ["He fell ."])


def test_realsumm(tmp_path):
    """Numbers that NumPy wrote are read without NumPy; marks of sentences go."""
    import numpy as np

    scores = {"litepyramid_recall": 0.5, "mover_score": np.float64(0.25)}
    systems = {"bart_out.txt": {"system_summary": "<t> one </t>  <t> two </t>", "scores": scores}}
    content = {3: {"doc_id": 3, "ref_summ": "<t> one </t>", "system_summaries": systems}}
    abstractive = as_file(tmp_path / "abs.pkl", content)
    extractive = as_file(tmp_path / "ext.pkl", content)
    articles = as_file(tmp_path / "data.pkl", {3: {"src": "An article ."}})
    first, second = rows_of("realsumm", abstractive, extractive, articles)
    assert first["output"] == "one two"
    assert first["metrics"] == {"mover_score": 0.25}
    assert (first["system"], second["system"]) == ("abs/bart_out.txt", "ext/bart_out.txt")
    assert first["source"] == "An article ."


def test_newsroom(tmp_path):
    """The lines of three raters become one row, and HTML's entities characters."""
    rated = ("Coherence", "Fluency", "Informativeness", "Relevance")
    columns = ["ArticleID", "System", "ArticleText", "SystemSummary", "ArticleTitle"]
    columns += [f"{aspect}Rating" for aspect in rated]
    file = tmp_path / "newsroom-human-eval.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        for value in (1, 2, 3):
            writer.writerow(["9", "lede3", "A &amp; B<br>", "A &quot;", "T", value, 5, 4, 3])
    [row] = rows_of("newsroom", file)
    assert (row["source"], row["output"]) == ("A & B<br>", 'A "')
    assert row["annotators"]["coherence"] == [1.0, 2.0, 3.0]
    assert row["human"]["coherence"] == 2.0


def test_mqm(tmp_path):
    """Marks become penalties by translator, and the reference's own line a reference."""
    head = ["system", "doc", "doc_id", "seg_id", "rater", "source", "target"]
    head += ["category", "severity"]
    marks = [
        ("OPPO.1", "rater1", "A <v>cat</v> sat.", "Accuracy/Mistranslation", "Major"),
        ("OPPO.1", "rater1", "A cat sat<v>.</v>", "Fluency/Punctuation", "Minor"),
        ("OPPO.1", "rater1", "A <v>cat</v> sat.", "Style/Awkward", "Neutral"),
        ("OPPO.1", "rater2", "A cat sat.", "no-error", "no-error"),
        ("Human-A.0", "rater1", '"He said ""cat""."', "no-error", "no-error"),
        ("Human-B.0", "rater1", '"Cat", he said.', "Fluency/Grammar", "Minor"),
        ("Online-B.2", "rater2", "<v>Cat cat cat</v>", "Non-translation!", "Major"),
    ]
    lines = [(one[0], "news.1", "1", "7", one[1], "猫", *one[2:]) for one in marks]
    file = tmp_path / "mqm_newstest2020_zhen.tsv"
    file.write_text("".join("\t".join(line) + "\n" for line in (head, *lines)), encoding="utf-8")
    oppo, person, online = rows_of("mqm", file)
    assert (oppo["source"], oppo["output"]) == ("猫", "A cat sat.")
    assert oppo["references"] == ['He said "cat".']
    assert oppo["annotators"] == {"accuracy": [-5, 0], "fluency": [-0.1, 0], "MQM": [-5.1, 0]}
    assert oppo["human"]["MQM"] == -2.55
    assert (person["output"], person["human"]["fluency"]) == ('"Cat", he said.', -1)
    assert set(online["human"].values()) == {-25}
    file.write_text("\t".join(head) + "\nOPPO.1\tnews.1\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 2 of 9 columns"):
        rows_of("mqm", file)


class Nasty:
    """What a pickle of someone else may hold: a call."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_cannot_run_anything(tmp_path):
    """A name that may run code is refused by its name, before it is looked up."""
    target = tmp_path / "written"
    file = as_file(tmp_path / "data.pkl", {0: Nasty(target)})
    with pytest.raises(DataError, match=r"asks for (io|_io|builtins|__builtin__)\.open"):
        read_plain_pickle(file)
    assert not target.exists()


def test_files_of_another_layout_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"wrong\.json: not laid out as mans_roc\.json of https"):
        rows_of("openmeva", as_file(tmp_path / "wrong.json", {"7": {"prompt": "x"}}))
    with pytest.raises(ConfigurationError, match=r"made from abs\.pkl, ext\.pkl, data\.pkl"):
        rows_of("realsumm", tmp_path / "abs.pkl")


def test_convert_writes_a_file_and_reports_its_checksum(tmp_path, capsys):
    """Another version of the origin's file is reported, not refused; no file is overwritten."""
    sentence = {"sentence": "S.", "responses": [{"worker_id": 0, "response": "yes"}]}
    line = {"article": "An article.", "summary_sentences": [sentence]}
    file = as_file(tmp_path / "mturk_xsum.jsonl", [line])
    out = tmp_path / "qags_xsum.jsonl"
    command = ["convert", "qags_xsum", str(file), "--out", str(out)]
    assert main(command) == 0
    message = capsys.readouterr().err
    assert "another version of the file" in message
    assert "1 rows" in message
    assert Examples(out).check().human == {"consistency": 1, "factuality": 1}
    assert main(command) == 2
    assert "there already" in capsys.readouterr().err


def test_every_file_says_where_it_is_from_and_its_licence(capsys):
    assert main(["data"]) == 0
    shown = capsys.readouterr().out
    for data in DATA_SETS.values():
        assert f"{data.name}: " in shown
        for file in data.files:
            assert file.where.startswith("http")
            assert file.license
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
    assert "not checked here" in shown
