"""The tables: figures as the papers print them, rows that come out today, and the way through."""

import asyncio
import importlib.util
import json
import random
import re
import tomllib
from pathlib import Path

import pytest

from reproduce.command import main
from reproduce.datasets import DataSets
from reproduce.learned import held_out
from reproduce.reproduction import chosen
from reproduce.scores import Scorer
from reproduce.table import Table, load, names
from tests.benchmark_data import FOLDER, benchmark, paper
from tests.methods.judging import CHOICES
from textassay.agreement.joined import People
from textassay.estimation.calibration import calibrate
from textassay.estimation.columns import join_columns, read_judged, scales_of
from textassay.runtime.data.dataset import Examples

PAPERS = {
    "coascore": "coascore.txt",
    "decomp-eval": "decompeval.txt",
    "fusion-eval": "fusion-eval.txt",
    "gptscore": "gptscore.txt",
    "hd-eval": "hd-eval.txt",
}


def run(capsys, *command):
    """The exit status and the JSON document of a command."""
    status = main([*command, "--json"])
    return status, json.loads(capsys.readouterr().out)


def figures(row):
    return {(one["column"], one["statistic"]): one for one in row["figures"]}


def printed(text):
    """The numbers of a paper in order, to three decimals."""
    return [f"{float(number):.3f}" for number in re.findall(r"-?\d*\.\d+|-?\d+", text)]


# the page with Nimble's figures is not among the papers
@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("nimble")])
def test_published_figures_are_in_the_paper(name):
    """The figures of a row are there in this order, not far from each other."""
    table = load(name)
    rows = [row for row in table.rows if any(figure != "-" for figure in row.published)]
    if not rows:
        assert table.missing or table.notes
        return
    stream = printed(paper(PAPERS[name.split("-table-")[0].split("-figure-")[0]]))
    for row in rows:
        due = [f"{figure:.3f}" for figure in row.published if figure != "-"]
        reach = 20 * len(due) + 20  # copies of the papers print columns of several rows by turns
        starts = [at for at, number in enumerate(stream) if number == due[0]]
        assert any(follows(due, stream[at : at + reach]) for at in starts), row.name


def follows(due, found):
    """Whether the wanted numbers are among the found ones, in order."""
    rest = iter(found)
    return all(number in rest for number in due)


def test_all_five_papers_have_tables(capsys):
    """Each table of the list runs, needs data by name, or says why there is nothing to run."""
    assert main(["--data", "."]) == 0
    shown = capsys.readouterr().out
    for name in names():
        table = load(name)
        state = shown.split(f"  {name} ", 1)[1].splitlines()[1].strip()
        expected = "nothing to run" if table.missing else f"needs data {', '.join(table.data)}"
        assert state.startswith(expected)
    papers = {name.split("-table-")[0].split("-figure-")[0] for name in names()}
    assert papers == {*PAPERS, "nimble"}


def test_the_guide_has_every_table():
    """With the number of rows that need no model, and of those that ask one."""
    guide = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    for name in names():
        table = load(name)
        free = sum(not row.needs_model and row.missing is None for row in table.rows)
        asking = sum(row.needs_model for row in table.rows)
        counts = " | | nothing to run" if table.missing else f" {free} | {asking} |"
        assert f"| `{name}` |{counts}" in guide


def numbered(kind, text):
    """The numbers in `tables 2 to 6, 12 and 13` or `figure 4`."""
    found = set()
    for listed in re.findall(rf"{kind}s? ((?:\d+(?:, | and | to )?)+)", text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", listed):
            found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("method", PAPERS)
def test_the_appendix_states_every_table_of_the_papers(method):
    """In the table of its paper: how to run it, or why there is nothing to run."""
    guide = (Path(__file__).parents[2] / "docs" / "appendix.md").read_text(encoding="utf-8")
    section = guide.split(f"\n## {method} and its paper\n")[1].split("\n## ")[0]
    rows = "\n".join(line.lower() for line in section.splitlines() if line.startswith("|"))
    for kind in ("table", "figure"):
        ours = {int(name.rpartition("-")[2]) for name in names() if f"{method}-{kind}-" in name}
        assert ours <= numbered(kind, rows)


@pytest.mark.parametrize(
    ("name", "row", "columns"),
    [("decomp-eval-table-3", "UniEval (Dial)", 8), ("fusion-eval-table-3", "UniEval", 6)],
)
def test_recorded_rows_print_the_published_numbers(name, row, columns, capsys):
    """UniEval's published scores give the papers' figures to the third decimal."""
    benchmark("topical_chat/topical_chat.jsonl")
    command = [name, "--recorded", "--rows", row, "--bootstrap", "0", "--data", str(FOLDER)]
    status, found = run(capsys, *command)
    assert status == 0
    compared = [one for one in found["rows"][0]["figures"] if one["paper"] is not None]
    assert len(compared) == columns
    for one in compared:
        assert one["ours"] == pytest.approx(one["paper"], abs=0.0006), one["column"]


def test_recorded_decisions_are_as_sure_as_published_and_surer_after_100_grades(capsys, tmp_path):
    """One map a question brings the error on items without grades under .08, and keeps the order.

    The kept files are what `textassay calibrate` reads.
    """
    benchmark("jevals/jev_helpsteer2.jsonl.gz")
    benchmark("jevals/jev_pubmedqa.jsonl.gz")
    command = ["nimble-table-1", "--rows", "Jev*", "--bootstrap", "200", "--out", str(tmp_path)]
    status, found = run(capsys, *command, "--data", str(FOLDER / "jevals"))
    assert status == 0
    ours = figures(found["rows"][0])
    due = {
        ("HelpSteer2", "exact"): 0.4127, ("HelpSteer2", "constant"): 0.4167,
        ("HelpSteer2", "ece"): 0.1962, ("HelpSteer2", "spearman"): 0.518,
        ("HelpSteer2", "mae"): 0.855, ("PubMedQA", "exact"): 0.9133,
        ("PubMedQA", "constant"): 0.62, ("PubMedQA", "ece"): 0.0712, ("PubMedQA", "auc"): 0.963,
    }  # fmt: skip
    assert {key: ours[key]["ours"] for key in due} == pytest.approx(due, abs=6e-4)
    for name in ("HelpSteer2", "PubMedQA"):
        low, high = ours[name, "exact"]["interval"]
        assert low < ours[name, "exact"]["ours"] < high
        assert ours[name, "ece-after"]["ours"] < min(0.08, ours[name, "ece-before"]["ours"])
        assert ours[name, "spearman-change"]["ours"] >= 0
    kept = tmp_path / "nimble-table-1" / "jev_helpsteer2"
    [columns] = join_columns(
        read_judged(kept / "scores.jsonl"),
        People(Examples(kept / "data.jsonl", needs_output=False)),
    )
    made, _ = calibrate(columns, scales=scales_of(columns, {"helpfulness": (0, 4)}))
    assert made.temperature > 1  # it was too sure


def test_experts_agree_as_published(capsys):
    """HD-Eval's table 9 is of a part of the rows, so that it comes out nearly."""
    benchmark("alttest/summeval.jsonl.gz")
    given = f"summeval_raters={FOLDER / 'alttest' / 'summeval.jsonl.gz'}"
    command = ["hd-eval-table-9", "--rows", "Expert*", "--data", given, "--bootstrap", "0"]
    status, found = run(capsys, *command)
    assert status == 0
    for row in found["rows"]:
        for one in row["figures"]:
            assert one["ours"] == pytest.approx(one["paper"], abs=0.04)
            assert one["n"] == 1600


# ---- the way through, on a few rows and models that know nothing ----

FACTORS = (1, 2, 3, 4, 6, 7)  # none shares a divisor with 5, so that every rating varies
WORDS = ["the cat sat", "a dog ran home", "it is red", "the sun and the moon", "no bird ate fish"]


@pytest.fixture
def data(tmp_path):
    """A folder with tiny data of every data set that the tests ask for."""

    def rows(name, aspects, **more):
        with (tmp_path / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
            for number in range(20):
                text = WORDS[number % 5] + "." + f" {WORDS[number % 3]}." * (number % 2)
                rated = {
                    aspect: 1 + number * factor % 5
                    for aspect, factor in zip(aspects, FACTORS, strict=False)
                }
                row = {
                    "id": f"{name}-{number}",
                    "output": text,
                    "source": WORDS[(number + 1) % 5],
                    "references": [WORDS[(number + 2) % 5]],
                    "group": f"g{number // 4}",
                    "system": f"s{number % 4}",
                    "human": rated,
                }
                lines.write(json.dumps(row | more) + "\n")

    chat = ["naturalness", "coherence", "engagingness", "groundedness", "understandability"]
    rows("topical_chat", [*chat, "overall"], context="the cat is red")
    for name in ("sfres", "sfhot", "bagel"):
        rows(name, ["informativeness", "naturalness", "quality"])
    rows("summeval", ["coherence", "consistency", "fluency", "relevance", "overall"])
    for name in ("realsumm", "fed_turn", "fed_dialog", "openmeva", "iwslt14"):
        rows(name, ["overall", "litepyramid_recall", "interesting"])
    rows("mqm", ["accuracy", "fluency", "MQM"])
    return str(tmp_path)


def tiny(family, folder):
    """A model with random weights; skips without transformers."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("needs transformers, which is not installed (extra transformers)")
    from tests.runtime.backends.tiny_transformers import save

    save(family, folder)
    return f"transformers/{folder}"


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """Flags of a tiny judge whose ratings are choices."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("needs llama-cpp-python, which is not installed (extra llamacpp)")
    from tests.gguf_fixture import Shape, write_model

    shape = Shape(
        width=32, layers=1, heads=2, hidden=32, context=4096, vocabulary=4096, dtype="f32",
        bos=True,
    )  # fmt: skip
    path = write_model(tmp_path_factory.mktemp("gguf") / "tiny.gguf", shape).path
    refused = [
        part for key in ("n", "temperature", "plan", "n_aspects") for part in ("--set", f"{key}=")
    ]
    model = ["--model", f"llamacpp/{path}", "--set", "truncate=source"]
    model += ["--set", "n_gpu_layers=0", "--set", "threads=1"]
    return [*model, "--set", f"profile={CHOICES}", *refused, "--bootstrap", "0"]


def complete(found):
    """Whether every figure of every row was computed over all rows."""
    return all(
        one["ours"] is not None and one["n"] > 0
        for row in found["rows"]
        for one in row["figures"]
        if "verage" not in one["column"]
    )


def test_every_run_of_every_table_can_be_made(data, capsys):
    """Methods, tasks, aspects and options fit each other: each run has an estimate."""
    server = ["--model", "direct/any", "--api-base", "http://127.0.0.1:9/v1", "--limit", "1"]
    names_of_tools = ("nli", "bleurt", "sum_bleurt", "lm_prob")
    tools = [part for name in names_of_tools for part in ("--tools", f"{name}=chrf")]
    asked = 0
    for name in names():
        table = load(name)
        if any(row.needs_model for row in table.rows):
            assert main([name, "--data", data, *server, *tools, "--dry-run"]) == 0
            shown = capsys.readouterr().out
            assert "cannot be made" not in shown, shown
            assert "cost estimate: 0 calls" not in shown
            asked += 1
    assert asked > 30


def test_decomp_eval_end_to_end(data, tmp_path, capsys):
    """Table 3 on a tiny T5, estimated first, kept and gone on with."""
    model = ["--model", tiny("t5", tmp_path / "t5"), "--limit", "3", "--bootstrap", "0"]
    command = ["decomp-eval-table-6", "--data", data, *model, "--rows", "w/o Decomp*"]
    assert main([*command, "--dry-run"]) == 0
    estimate = capsys.readouterr().out
    assert "cost estimate: 12 calls" in estimate
    out = ["--out", str(tmp_path / "runs")]
    status, found = run(capsys, *command, *out)
    assert status == 0
    [row] = found["rows"]
    assert figures(row)["Coh.", "spearman"]["paper"] == 0.399
    assert figures(row)["Coh.", "spearman"]["n"] == 3
    assert len(list((tmp_path / "runs" / "decomp-eval-table-6").glob("*/manifest.json"))) == 1
    assert run(capsys, *command, *out) == (0, found)


def test_gptscore_end_to_end(data, tmp_path, capsys):
    """Table 5 on a tiny GPT-2, named as the paper's model of these rows alone."""
    given = f"GPT2={tiny('gpt2', tmp_path / 'gpt2')}"
    rows = ["--rows", "GPT2 VAL", "--rows", "OPT VAL"]
    command = ["gptscore-table-5", "--data", data, "--model", given, *rows, "--limit", "8"]
    status, found = run(capsys, *command)
    assert status == 1
    scored, other = found["rows"]
    assert figures(scored)["BAGEL INF", "spearman"]["paper"] == 40.8
    assert complete({"rows": [scored]})
    assert other["why_not"] == "needs --model MODEL (the paper: OPT)"


def test_coascore_end_to_end(data, judge, capsys):
    """Table 5 on a tiny model; no public copy has its figures."""
    command = ["coascore-table-5", "--data", data, *judge, "--limit", "4", "--rows", "CoAScore*"]
    status, found = run(capsys, *command)
    assert status == 0
    assert [row["row"] for row in found["rows"]] == ["CoAScore inter", "CoAScore"]
    assert complete(found)


def test_fusion_eval_end_to_end(data, judge, capsys):
    """Rows of table 3 that judge, average tools, or use a tool alone; others say what they need."""
    tools = ["--tools", "lm_prob=rougeL", "--tools", "bleurt=chrf"]
    rows = [part for name in ("FE-GPT-4", "AVG (AE)", "BLEURT") for part in ("--rows", name)]
    command = ["fusion-eval-table-3", "--data", data, *judge, "--limit", "5", *rows]
    status, found = run(capsys, *command, *tools)
    assert status == 0
    assert complete(found)
    status, found = run(capsys, *command)
    assert status == 1
    assert [row["why_not"] for row in found["rows"]] == [
        "needs --tools bleurt=KIND:MODEL (see docs/tools.md)",
        "needs --tools lm_prob=KIND:MODEL (see docs/tools.md)",
        "needs --tools lm_prob=KIND:MODEL (see docs/tools.md)",
    ]


def test_hd_eval_end_to_end(data, judge, capsys):
    """Table 3 learns from the nodes of the published tree, one run of each data set."""
    rows = ["--rows", "HD-Eval-NN, 50 %"]
    status, found = run(capsys, "hd-eval-table-3", "--data", data, *judge, *rows)
    assert status == 0
    [row] = found["rows"]
    assert row["source"] == "mlp-joint on 50%"
    assert {one["n"] for one in row["figures"] if one["column"] != "Average"} <= set(range(8, 13))
    assert figures(row)["Average", "pearson"]["ours"] is not None


def learned_rows(file, **learned):
    """What a row learns from recorded features `a` to `d`, of which `c` says most."""
    columns = [{"head": "Q", "data": "own", "aspect": "quality", "statistics": ["pearson"]}]
    how = {"aggregator": "linear", "train_fraction": 0.5, "test_fraction": 0.5, **learned}
    row = {"name": "LR", "learned": {"recorded": ["?"], **how}}
    table = Table(name="hd-eval-figure-5", title="x", columns=columns, rows=[row])
    scorer = Scorer(table, DataSets(files={"own": file}))
    [figure] = asyncio.run(held_out(scorer, table.rows[0], "own")).values()
    return figure


@pytest.fixture
def recorded(tmp_path):
    draw = random.Random(3)
    with (tmp_path / "own.jsonl").open("w", encoding="utf-8") as lines:
        for at in range(60):
            features = {name: draw.random() for name in "abcd"}
            quality = features["c"] + 0.3 * features["a"] + 0.2 * draw.random()
            row = {"id": str(at), "output": "x", "group": str(at // 3), "metrics": features}
            lines.write(json.dumps(row | {"human": {"quality": quality}}) + "\n")
    return tmp_path / "own.jsonl"


def test_rows_that_learn_are_averaged_over_splits(recorded):
    """HD-Eval's figures 4 and 5: the mean over splits of seeds 0, 1, 2, ..."""
    one, three = (learned_rows(recorded, repeats=repeats) for repeats in (1, 3))
    assert one.value != three.value
    assert three.interval[0] < three.value < three.interval[1]
    row = load("hd-eval-figure-4").rows[0]
    assert row.learned.repeats == 5
    [again] = chosen(load("hd-eval-figure-4"), [row.name], recorded=False, repeats=2)
    assert again.learned == row.learned.model_copy(update={"repeats": 2})
    assert main(["hd-eval-figure-4", "--repeats", "0"]) == 2


def test_rows_that_learn_from_the_most_important_criteria(recorded):
    """HD-Eval's figure 5: `c` is taken first, and all features together say the most."""
    top, two, whole = (learned_rows(recorded, criteria=count) for count in (1, 2, None))
    alone = learned_rows(recorded, recorded=["c"])
    assert top == alone
    assert top.value < two.value
    assert two.value == pytest.approx(whole.value, abs=0.05)


def test_missing_parts_are_reported(tmp_path, capsys):
    """Unknown tables and rows, tables without figures, and data that are not here."""
    assert main(["hd-eval-table-99"]) == 2
    assert "hd-eval-table-9" in capsys.readouterr().err
    assert main(["hd-eval-table-1", "--rows", "Nobody"]) == 2
    assert "ROUGE-1" in capsys.readouterr().err
    assert main(["gptscore-table-12"]) == 1
    assert "prompts, no figures" in capsys.readouterr().out
    assert main(["decomp-eval-table-2", "--data", str(tmp_path), "--recorded"]) == 1
    shown = capsys.readouterr().out
    assert "fetch https://github.com/Yale-LILY/SummEval" in shown
    assert "the paper: 0.167 0.126" in shown
    assert main(["decomp-eval-table-2", "--data", "nowhere"]) == 2
    assert "no folder nowhere" in capsys.readouterr().err


LEARNED_FROM_TESTED = "learned from the rows that they are tested on"


def rows_with(**wanted):
    """Rows that ask a model, by table and name, whose method or options are these."""
    for name in names():
        for row in load(name).rows:
            asked = row.judged and {"method": row.judged.method, **row.judged.options}
            if asked and wanted.items() <= asked.items():
                yield pytest.param(row, id=f"{name}: {row.name}")


@pytest.mark.parametrize("row", [*rows_with(fusion="corrw")])
def test_rows_whose_weights_are_learned_say_from_what(row):
    assert row.judged.options["ratings"] == "{data}"
    assert LEARNED_FROM_TESTED in row.note


@pytest.mark.parametrize("row", [*rows_with(method="g-eval"), *rows_with(direct=True)])
def test_rows_of_g_eval_say_whose_words_they_are(row):
    if row.judged.options.get("profile") != "paper":
        assert "ours is G-Eval; the paper does not say how" in row.note
        return
    task = row.judged.task
    tasks = {task} if isinstance(task, str) else set(task.values())
    # G-Eval's authors publish prompts for SummEval alone
    says_theirs = re.search(r"authors('? prompts| publish)", row.note)
    says_ours = re.search("definitions (are|of) ours", row.note)
    assert bool(says_theirs) == ("summarization" in tasks)
    assert bool(says_ours) == bool(tasks - {"summarization"})


@pytest.mark.parametrize("table", ["fusion-eval-table-2", "fusion-eval-table-3"])
def test_mixed_rows_ask_the_direct_evaluator_as_its_own_row_does(table):
    """A row of assistants and a direct evaluator has the scores of that evaluator's own row."""
    path = Path(__file__).parents[2] / "reproduce" / "tables" / f"{table}.toml"
    rows = {row["name"]: row for row in tomllib.loads(path.read_text(encoding="utf-8"))["rows"]}
    own = {"(AE, DE-PaLM2)": "DE-PaLM2", "(AE, G-Eval-GPT-4)": "G-Eval (GPT-4)"}
    sampling = {name: rows[name]["judged"]["options"] for name in own.values() if name in rows}
    mixed = [(name, end) for name in rows for end in own if name.endswith(end)]
    assert mixed
    for name, end in mixed:
        options = rows[name]["judged"]["options"]
        for setting in ("n", "temperature"):
            assert options[setting] == sampling[own[end]][setting], name
