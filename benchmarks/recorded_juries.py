"""Write recorded judges as files of scores and data: the tables of juries in docs/appendix.md.

python -m benchmarks.recorded_juries FOLDER --data DATA
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

Row = dict[str, Any]
CRITERIA = tuple(f"{one}/criteria/best" for one in ("gpt-5.4", "gpt-5.4-mini", "claude-sonnet-4.6"))
FOUR = ("GPT-4", "ChatGPT", "PaLM2", "LLaMA2")
SUMMEVAL = ("coherence", "consistency", "fluency", "relevance")
TOPICAL_CHAT = ("naturalness", "coherence", "engagingness", "groundedness")


def write(data: Path, out: Path) -> None:
    """Write all files."""
    out.mkdir(parents=True, exist_ok=True)

    def read(name: str) -> list[Row]:
        content = (data / name).read_bytes()
        text = gzip.decompress(content) if name.endswith(".gz") else content
        return [json.loads(line) for line in text.splitlines()]

    def save(name: str, rows: Iterable[Row]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (out / f"{name}.jsonl").write_text(text, encoding="utf-8")

    _reward_bench(read("rewardbench2/rewardbench2.jsonl.gz"), save)
    _llm_bar(read("llmbar/strategies.jsonl.gz"), read("llmbar/llmbar.jsonl.gz"), save)
    for name in ("wax", "lgbteen", "mtbench"):
        _labels(name, read(f"alttest/{name}.jsonl.gz"), save)
    save("summeval-six", _jury(read("alttest/summeval.jsonl.gz"), lambda _: True))
    # the 12 systems that GPT-4 and GPT-3.5 judged
    rows = [row for row in read("summeval/summeval.jsonl.gz") if row.get("annotators")]
    rows = _rated_on(rows, SUMMEVAL)
    save("summeval-gpt", _jury(rows, lambda name: name.startswith("gpt")))
    save("summeval-nine", _jury(rows, lambda name: name.startswith(("gpt", "llama"))))
    rows = _rated_on(read("topical_chat/topical_chat.jsonl"), TOPICAL_CHAT)
    save("topical-chat", _jury(rows, lambda name: name.startswith(("gpt", "unieval"))))
    prompts = ("analyze_rate", "geval", "llm_eval_no_cot", "rate_explain")
    files = (read(f"topical_chat/predictions_gpt35_{prompt}.jsonl.gz") for prompt in prompts)
    save("topical-chat-samples", (
        _score(one["id"], f"{one['prompt']}/{one['dimension']}", one["scores"])
        for file in files for one in file
    ))  # fmt: skip
    repeats: dict[str, list[Row]] = {}
    for row in read("jevals/jev_helpsteer2.jsonl.gz"):
        repeats.setdefault(row["id"], []).append(row)
    save("jev", (
        _score(id_, "helpfulness", [one["score"] for one in own]) for id_, own in repeats.items()
    ))  # fmt: skip
    save("jev-people", ({"id": id_, "human": own[0]["human"]} for id_, own in repeats.items()))


def _score(id_: str, aspect: str, samples: Iterable[float | None]) -> Row:
    ratings = [one for one in samples if one is not None]
    value = fmean(ratings) if ratings else None
    return {"id": id_, "aspect": aspect, "value": value, "evidence": [{"ratings": ratings}]}


def _jury(rows: Iterable[Row], keep: Callable[[str], bool]) -> list[Row]:
    """Return rows with the metrics that are jurors, and without what a fit could learn else."""
    kept = ("id", "group", "human", "annotators")
    return [
        {key: row[key] for key in kept if row.get(key)}
        | {"metrics": {name: one for name, one in row["metrics"].items() if keep(name)}}
        for row in rows
    ]


def _rated_on(rows: Iterable[Row], aspects: tuple[str, ...]) -> list[Row]:
    return [
        {**row, "annotators": None, "human": {name: row["human"][name] for name in aspects}}
        for row in rows
    ]


def _reward_bench(rows: list[Row], save: Callable[[str, Iterable[Row]], None]) -> None:
    """Save all ratings, and a jury of three judges with one rating each and with means of eight."""
    save("rewardbench2", (
        _score(row["id"], name, own) for row in rows for name, own in row["samples"].items()
    ))  # fmt: skip

    def jury(pick: Callable[[Row, str], float | None]) -> list[Row]:
        own = ({**row, "metrics": {name: pick(row, name) for name in CRITERIA}} for row in rows)
        return _jury(own, lambda _: True)

    save("rewardbench2-one", jury(lambda row, name: (row["samples"].get(name) or [None])[0]))
    save("rewardbench2-eight", jury(lambda row, name: row["metrics"].get(name)))
    three = (
        _score(row["id"], "best", [fmean(draw) for draw in zip(*own, strict=True) if all(draw)])
        for row in rows
        if all(own := [row["samples"].get(name) for name in CRITERIA])
    )
    save("rewardbench2-three", three)


def _llm_bar(
    strategies: Iterable[Row], plain: Iterable[Row], save: Callable[[str, Iterable[Row]], None]
) -> None:
    """Save, of natural and adversarial pairs, a jury of four models, and GPT-4 by its prompts.

    A choice that flips with the order of the texts, or cannot be read, is .5.
    """
    pairs: dict[str, Row] = {}
    for row in plain:
        answers = {name: _mean_of_orders(row["answers"][name]) for name in FOUR}
        pairs[row["id"]] = {
            "id": row["id"], "output": "a", "output_b": "b", "subset": row["set"],
            "human": {"better": float(row["label"] == 1)},
            "metrics": {f"{name}/better": one for name, one in answers.items()},
        }  # fmt: skip
    prompts: dict[str, dict[str, float]] = {id_: {} for id_ in pairs}
    for row in strategies:
        verdict = next(one for one in row["results"] if isinstance(one, dict))
        orders = {key: verdict[key] for key in ("swap = False", "swap = True")}
        id_ = f"{row['set'].split('/')[-1]}-{row['index']:03}"
        prompts[id_][f"{row['model']}/{row['strategy']}"] = _mean_of_orders(orders)
    for name, natural in (("natural", True), ("adversarial", False)):
        chosen = [id_ for id_, one in pairs.items() if (one["subset"] == "Natural") == natural]
        save(f"llmbar-{name}", (pairs[id_] for id_ in chosen))
        save(f"llmbar-{name}-pairs", ({**pairs[id_], "metrics": {}} for id_ in chosen))
        for prompt in ("Vanilla", "Vanilla_NoRules", "Metrics_Reference", "CoT"):
            save(f"llmbar-{name}-{prompt}", (
                {"id": id_, "aspect": "better", "value": prompts[id_][f"GPT-4/{prompt}"]}
                for id_ in chosen
            ))  # fmt: skip


def _mean_of_orders(orders: Mapping[str, Row]) -> float:
    votes = [{"1": 1.0, "2": 0.0}.get(str(one["winner"])) for one in orders.values()]
    return 0.5 if None in votes else fmean(vote for vote in votes if vote is not None)


def _labels(name: str, rows: list[Row], save: Callable[[str, Iterable[Row]], None]) -> None:
    """Save ratings and judges' labels as words: their numbers have no order."""

    def word(number: float | None) -> str | None:
        return None if number is None else f"label {number:02.0f}"

    save(f"{name}-people", (
        {"id": row["id"], "annotators": {"label": [*map(word, row["annotators"]["label"])]}}
        for row in rows
    ))  # fmt: skip
    save(name, (
        {"id": row["id"], "aspect": f"{judge}/label", "value": word(one)}
        for row in rows for judge, one in row["metrics"].items()
    ))  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="with rewardbench2, llmbar, ...")
    options = parser.parse_args()
    write(options.data, options.out)
