"""Makes the record of a score that each tool takes, as documented and packaged in November 2026.

Inspect: `precomputed_scores` (inspect_ai 0.3.285). MLflow: `Feedback` of a trace (3.17). Langfuse:
`POST /api/public/scores`, which takes a score with the id of an earlier one for its new version.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from textassay.evaluation.run import Run
from textassay.runtime.data.digests import may_be_one_text, text_digest
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.labels import LabelSets
from textassay.runtime.messages import Example, Score

Row = dict[str, Any]

_DETAILS = (
    "outcome", "scale", "how", "samples", "spread", "mass", "calibrated", "low", "high", "outside",
    "signature", "text_digest", "error",
)  # fmt: skip
"""Fields of a score that become metadata."""


class JudgedText(NamedTuple):
    """An example with its scores by aspect, in the order of the run."""

    example: Example
    scores: dict[str, Score]


def judged_texts(run: Run, data: Iterable[Example] | None = None) -> Iterator[JudgedText]:
    """Yield the texts of a run that have scores, in the order of the data.

    Raises:
        DataError: The data lack scored texts, have different texts under their ids, or cannot be
            read.
        ConfigurationError: The run's data came from memory and are not kept.
    """
    by_id: dict[str, dict[str, Score]] = {}
    for score in run:
        by_id.setdefault(score.id, {})[score.aspect] = score
    for example in run.examples() if data is None else data:
        if (scores := by_id.pop(example.id, None)) is None:
            continue
        text = text_digest(example)
        if not all(may_be_one_text(text, score.text_digest) for score in scores.values()):
            raise DataError(
                f"the data have a different text from the judged one under the id {example.id!r};"
                " name the data that were judged with data="
            )
        yield JudgedText(example, scores)
    if by_id:
        raise DataError(
            f"the data lack {len(by_id):,} texts that have scores, such as {next(iter(by_id))!r};"
            " name the data that were judged with data="
        )


def label_of(score: Score, labels: LabelSets) -> str | None:
    """Return the label of a score; `None` if the aspect has no labels, or it is between two."""
    scale = labels.get(score.aspect)
    if scale is None or scale.multiple or score.value is None or score.value % 1:
        return None
    return scale.names[int(score.value)]


def details_of(score: Score, labels: LabelSets) -> Row:
    """Return the metadata of a score as JSON values."""
    values = score.model_dump(mode="json", include=set(_DETAILS), exclude_none=True)
    label = label_of(score, labels)
    return {
        **{name: values[name] for name in _DETAILS if values.get(name) not in (None, "")},
        **({} if label is None else {"label": label, "number": score.value}),
    }


def value_of(score: Score, labels: LabelSets) -> float | str | None:
    """Return the number of a score, or the label if labels have no order; `None` if it is missing.

    Labels with an order stay numbers: a judge's probability of `yes` is one between them.
    """
    scale = labels.get(score.aspect)
    is_nominal = scale is not None and scale.is_nominal
    return label_of(score, labels) if is_nominal else score.value


# --- Inspect


def inspect_rows(texts: Iterable[JudgedText], labels: LabelSets) -> Iterator[Row]:
    """Yield a record for each sample.

    With several aspects, the value is a mapping by aspect. A missing score is NaN, which Inspect
    treats as unscored (`Score.unscored`) and leaves out of its metrics.
    """
    for example, scores in texts:
        # as `textassay import inspect` names the samples of further epochs
        epoch = example.group is not None and re.fullmatch(
            r"#([1-9]\d*)", example.id.removeprefix(example.group)
        )
        if epoch:
            place = {"id": example.group, "epoch": int(epoch[1])}
        else:
            # a score of the first epoch does not apply to the others
            is_sample = example.group == example.id
            place = {"id": example.id, **({"epoch": 1} if is_sample else {})}
        values = {
            name: float("nan") if score.value is None else value_of(score, labels)
            for name, score in scores.items()
        }
        reasons = {name: _reason(score) for name, score in scores.items()}
        details = {name: details_of(score, labels) for name, score in scores.items()}
        if len(scores) == 1:
            (value,), (reason,), (about,) = values.values(), reasons.values(), details.values()
            yield {**place, "value": value, "explanation": reason, "metadata": about}
            continue
        explanation = "\n".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)
        yield {**place, "value": values, "explanation": explanation or None, "metadata": details}


def _reason(score: Score) -> str | None:
    """Return the judge's words, or the reason for a missing value."""
    return score.explanation if score.error is None else score.error.message


# --- MLflow and Langfuse

IDENTITY = "textassay_id"
"""MLflow metadata that identify a score that was sent before."""


def trace_of(example: Example, field: str) -> str:
    """Return the id of the trace that an example came from.

    Args:
        example: The example.
        field: `id`, `group`, or a column of the data that is kept in `meta`.
    """
    value = example.meta.get(field) if field not in ("id", "group") else getattr(example, field)
    if not isinstance(value, str | int) or value == "":
        raise DataError(
            f"example {example.id!r} has no trace in {field!r}; name its column: trace="
        )
    return str(value)


def identity_of(trace: str, score: Score) -> str:
    """Return an id of 32 hex digits, the same whenever this score of a run is exported."""
    started = "" if score.started is None else score.started.isoformat()
    parts = (trace, score.id, score.aspect, score.signature, started)
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def mlflow_rows(texts: Iterable[JudgedText], labels: LabelSets, trace: str) -> Iterator[Row]:
    """Yield an assessment for each score; a missing one has an error in place of a value."""
    for example, scores in texts:
        place = trace_of(example, trace)
        for score in scores.values():
            time = _time(score.started or datetime.now(UTC))
            feedback: Row = {"value": value_of(score, labels)}
            if score.error is not None:
                code, message = score.error.type, score.error.message
                feedback["error"] = {"error_code": code, "error_message": message}
            about = {IDENTITY: identity_of(place, score), **details_of(score, labels)}
            yield _without_none(
                {
                    "trace_id": place,
                    "assessment_name": score.aspect,
                    "source": {
                        "source_type": "CODE" if score.how == "tool" else "LLM_JUDGE",
                        "source_id": score.signature or "textassay",
                    },
                    "create_time": time,
                    "last_update_time": time,
                    "feedback": feedback,
                    "rationale": score.explanation,
                    # MLflow takes texts only
                    "metadata": {
                        name: value if isinstance(value, str) else json.dumps(value)
                        for name, value in about.items()
                    },
                }
            )


def langfuse_rows(texts: Iterable[JudgedText], labels: LabelSets, trace: str) -> Iterator[Row]:
    """Yield a Langfuse score for each score with a value, since Langfuse has no missing scores."""
    for example, scores in texts:
        place = trace_of(example, trace)
        for score in scores.values():
            if score.value is None:
                continue
            value = value_of(score, labels)
            yield _without_none(
                {
                    "id": identity_of(place, score),
                    "traceId": place,
                    "name": score.aspect,
                    "value": value,
                    "dataType": "CATEGORICAL" if isinstance(value, str) else "NUMERIC",
                    "comment": score.explanation,
                    "metadata": details_of(score, labels),
                    # Langfuse replaces a score by one with the same id and time
                    "timestamp": score.started and _time(score.started),
                }
            )


def _without_none(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _time(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- promptfoo


def promptfoo_rows(
    texts: Iterable[JudgedText], labels: LabelSets, lower_is_better: Collection[str]
) -> Iterator[Row]:
    """Yield an entry for each text: digests of output and source, and its scores by aspect.

    Raises:
        ConfigurationError: No aspect has an order, and promptfoo takes numbers only.
    """
    for example, scores in texts:
        ranked = {
            name: score
            for name, score in scores.items()
            if not (name in labels and labels[name].is_nominal)
        }
        if not ranked:
            raise ConfigurationError(
                f"promptfoo takes numbers, and the labels of {', '.join(scores)} have no order"
            )
        yield {
            "id": example.id,
            "output": text_key(example.output),
            "source": text_key(example.source or ""),
            "scores": {
                name: _promptfoo_score(score, labels, falls=name in lower_is_better)
                for name, score in ranked.items()
            },
        }


def _promptfoo_score(score: Score, labels: LabelSets, *, falls: bool) -> Row:
    """Return a score on 0 to 1, where 1 is best; without a scale only its sign may change.

    `falls` says that a low value is the better one.
    """
    about = details_of(score, labels)
    if score.value is None:
        return {"missing": _reason(score), "metadata": about}
    unit = score.value if score.unit_value is None else score.unit_value
    if falls:
        unit = -unit if score.unit_value is None else 1 - unit
    reason = score.explanation or ""
    row = {"score": unit, "value": score.value, "reason": reason, "metadata": about}
    return row | ({"falls": True} if falls else {})


def text_key(text: str) -> str:
    """Return 16 hex digits of a text; the written script computes the same digits.

    White space is collapsed, and JSON texts are normalized, since promptfoo parses answers.
    """
    content = _plain_json(text)
    plain = re.sub(r"[ \t\r\n\f\v]+", " ", text if content is None else content).strip(" ")
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:16]


def _plain_json(text: str) -> str | None:
    """Return JSON objects and lists as `JSON.stringify` writes them; `None` for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text, parse_float=_number)
    except ValueError:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(digits: str) -> float | int:
    """Return a number that Python writes as JavaScript does: 1.0 as `1`."""
    number = float(digits)
    return int(number) if number.is_integer() else number
