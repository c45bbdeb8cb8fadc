"""Write recorded judges as files of scores and data: the tables of juries in docs/appendix.md.

Prints SummEval's juries by size: their mean r, the mean r of their best members (chosen for each
aspect), and how often a jury has a higher r than its best member.

python -m benchmarks.recorded_juries FOLDER --data DATA
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any

from textassay.agreement import pearson

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
    six = _jury(read("alttest/summeval.jsonl.gz"))
    save("summeval-six", six)
    _print_sizes(six)
    # the 12 systems that GPT-4 and GPT-3.5 judged
    rows = [row for row in read("summeval/summeval.jsonl.gz") if row.get("annotators")]
    rows = _rated_on(rows, SUMMEVAL)
    save("summeval-gpt", _jury(rows, ("gpt",)))
    save("summeval-nine", _jury(rows, ("gpt", "llama")))
    rows = _rated_on(read("topical_chat/topical_chat.jsonl"), TOPICAL_CHAT)
    save("topical-chat", _jury(rows, ("gpt", "unieval")))
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


def _print_sizes(rows: list[Row]) -> None:
    """Print the agreement of all juries of each size."""
    names = sorted({name.rpartition("/")[0] for name in rows[0]["metrics"]})
    human = {one: [fmean(row["annotators"][one]) for row in rows] for one in SUMMEVAL}

    def by_aspect(jury: Iterable[str]) -> list[float]:
        return [
            pearson([sum(row["metrics"][f"{one}/{aspect}"] for one in jury) for row in rows], own)
            or 0.0
            for aspect, own in human.items()
        ]

    alone = {name: by_aspect([name]) for name in names}
    for size in range(2, len(names) + 1):
        juries = list(combinations(names, size))
        rs = [r for jury in juries for r in by_aspect(jury)]
        best = [r for jury in juries for r in map(max, *(alone[name] for name in jury))]
        above = fmean(map(float.__gt__, rs, best))
        print(f"{size} jurors: r {fmean(rs):.3f}, best member {fmean(best):.3f}, above it"
              f" {above:.0%}")  # fmt: skip


def _jury(rows: Iterable[Row], jurors: tuple[str, ...] = ("",)) -> list[Row]:
    """Return rows with only the metrics whose names have this prefix."""
    kept = ("id", "output", "output_b", "group", "human", "annotators")
    return [
        {key: row[key] for key in kept if row.get(key)}
        | {"metrics": {k: one for k, one in row["metrics"].items() if k.startswith(jurors)}}
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
        return _jury(own)

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
    """Save, of natural and adversarial pairs, juries of models and of prompts, and GPT-4 by prompt.

    A choice that flips with the order of the texts, or cannot be read, is .5. The files `-orders`
    have a row for each combination of the orders in which jurors may have read the texts.
    """
    by_prompt: dict[str, dict[str, dict[str, Row]]] = {}
    for row in strategies:
        # the last one: where both orders disagree, `Swap` asks once more
        verdict = next(one for one in reversed(row["results"]) if isinstance(one, dict))
        orders = {key: verdict[key] for key in ("swap = False", "swap = True")}
        id_ = f"{row['set'].split('/')[-1]}-{row['index']:03}"
        by_prompt.setdefault(id_, {})[f"{row['model']}/{row['strategy']}"] = orders
    for name, natural in (("natural", True), ("adversarial", False)):
        rows = [row for row in plain if (row["set"] == "Natural") == natural]
        models = {row["id"]: row["answers"] for row in rows}
        prompts = {id_: by_prompt[id_] for id_ in models}
        pairs = [
            {"id": row["id"], "output": "a", "output_b": "b", "subset": row["set"],
             "human": {"better": float(row["label"] == 1)}}
            for row in rows
        ]  # fmt: skip
        save(f"llmbar-{name}-pairs", pairs)
        of_gpt4 = [one for one in prompts[rows[0]["id"]] if one.startswith("GPT-4")]
        save(f"llmbar-{name}-prompts", _choices(pairs, prompts, of_gpt4))
        for own, jurors in (
            ("", FOUR),
            ("-GPT-4-PaLM2", ("GPT-4", "PaLM2")),
            ("-ChatGPT-PaLM2", ("ChatGPT", "PaLM2")),
        ):
            save(f"llmbar-{name}{own}", _choices(pairs, models, jurors))
            in_order = (
                {**one, "id": f"{one['id']} {at}", "group": one["id"]}
                for at, orders in enumerate(product((0, 1), repeat=len(jurors)))
                for one in _choices(pairs, models, jurors, orders)
            )
            save(f"llmbar-{name}{own}-orders", in_order)
        for prompt in ("Vanilla", "Vanilla_NoRules", "Metrics_Reference", "CoT"):
            save(f"llmbar-{name}-{prompt}", (
                {"id": id_, "aspect": "better", "value": _mean_of(own[f"GPT-4/{prompt}"].values())}
                for id_, own in prompts.items()
            ))  # fmt: skip


def _choices(
    pairs: Iterable[Row],
    answers: Mapping[str, Mapping[str, Mapping[str, Row]]],
    jurors: Sequence[str],
    orders: Sequence[int] = (),
) -> list[Row]:
    """Return the pairs with each juror's choice in its order, or the mean of both orders."""

    def choice(id_: str, at: int) -> float:
        both = [*answers[id_][jurors[at]].values()]
        return _mean_of([both[orders[at]]] if orders else both)

    return [
        one | {"metrics": {f"{name}/better": choice(one["id"], at)
                           for at, name in enumerate(jurors)}}
        for one in pairs
    ]  # fmt: skip


def _mean_of(orders: Iterable[Row]) -> float:
    votes = [{"1": 1.0, "2": 0.0}.get(str(one["winner"])) for one in orders]
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
