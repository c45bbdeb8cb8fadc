"""Writes files with scores for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from textassay.evaluation.run import Run
from textassay.exporting.rows import (
    JudgedText,
    Row,
    inspect_rows,
    judged_texts,
    langfuse_rows,
    mlflow_rows,
    promptfoo_rows,
)
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Example
from textassay.runtime.storage.files import storage_errors, write_text
from textassay.runtime.storage.run_files import lower_is_better

Format = Literal["inspect", "mlflow", "langfuse", "promptfoo"]
"""The supported tools."""
FORMATS: tuple[Format, ...] = get_args(Format)


def export_scores(
    run: Run | str | Path,
    form: Format,
    out: str | Path,
    *,
    data: Iterable[Example] | None = None,
    trace: str = "id",
) -> int:
    """Write the scores of a run as a file for another tool.

    Inspect: records for `precomputed_scores`, one per sample. MLflow: assessments of traces, for
    `Feedback.from_dictionary`. Langfuse: bodies of `POST /api/public/scores`. These are JSON Lines
    if the file ends in `.jsonl`, else one JSON array. promptfoo: a script for an assertion of type
    `javascript`, which finds the scores of an output by its text.

    Args:
        run: The run, or its folder.
        form: The tool.
        out: The file to write.
        data: The judged data; by default the data of the run.
        trace: Field with the id of an example's trace, for MLflow and Langfuse: `id`, `group` or
            the name of a column in `meta`.

    Returns:
        The number of records in the file.

    Raises:
        UnknownName: There is no such tool.
        ConfigurationError: The run or its data cannot be read, or lack texts or traces, or the
            file's name does not fit.
        StorageError: The file cannot be written.
    """
    if form not in FORMATS:
        raise UnknownName("export format", form, FORMATS)
    out = Path(out)
    if form == "promptfoo" and out.suffix not in (".js", ".cjs"):
        raise ConfigurationError(
            f"promptfoo loads a script: name a file that ends in .js or .cjs, not {out}"
        )
    opened = run if isinstance(run, Run) else Run(run)
    rows = list(rows_for(form, opened, judged_texts(opened, data), trace))
    if form == "promptfoo":
        template = (Path(__file__).parent / "promptfoo.js").read_text(encoding="utf-8")
        # the only variable part: the rest of the file is equal for every run
        text = template.replace("/* entries */", ",\n".join(map(_json, rows)), 1)
    elif out.suffix == ".jsonl":
        text = "".join(f"{_json(row)}\n" for row in rows)
    else:
        text = "[\n" + ",\n".join(map(_json, rows)) + "\n]\n"
    with storage_errors(f"{out} cannot be written"):
        write_text(out, text)
    return len(rows)


def rows_for(form: Format, run: Run, texts: Iterable[JudgedText], trace: str) -> Iterator[Row]:
    """Yield the records of a tool."""
    if form == "inspect":
        return inspect_rows(texts, run.labels)
    if form == "mlflow":
        return mlflow_rows(texts, run.labels, trace)
    if form == "langfuse":
        return langfuse_rows(texts, run.labels, trace)
    return promptfoo_rows(texts, run.labels, lower_is_better(run.manifest))


def _json(value: Any) -> str:
    # NaN, which only a missing score of Inspect is, is written as Python's json writes and reads it
    return json.dumps(value, ensure_ascii=False)
