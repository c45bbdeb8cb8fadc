"""Result files of other evaluation tools, as rows in our format.

Their texts become outputs to judge, their scores `metrics`. Field names are those of Inspect's
`EvalLog`, promptfoo's `EvaluateSummary` (versions 2 and 3), DeepEval's `TestRun` and
lm-evaluation-harness' `--log_samples`.
"""

from __future__ import annotations

import importlib
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.exports import (
    ResultRow,
    attached,
    finite_number,
    listed,
    row,
    scores_in,
    text,
)
from textassay.runtime.data.tables import MAX_LINE
from textassay.runtime.errors import DataError, UnknownName


def inspect_rows(log: Mapping[str, Any]) -> Iterator[ResultRow]:
    """Yield the samples of an Inspect log; `group` is the sample, epochs are texts of their own."""
    model = log.get("eval", {}).get("model")
    for sample in log.get("samples") or ():
        output = sample.get("output") or {}
        answer = output.get("completion")
        if not answer:
            choices = output.get("choices") or [{}]
            answer = text(choices[0].get("message"))
        scores = sample.get("scores") or {}
        epoch = sample.get("epoch", 1)
        messages = attached(sample.get("messages"), sample.get("attachments") or {})
        # a question and its answer are no more than that
        is_longer = isinstance(messages, list) and len(messages) > 2
        yield row(
            # Inspect repeats a sample in epochs under one id.
            id=sample["id"] if epoch == 1 else f"{sample['id']}#{epoch}",
            output=answer,
            source=None if is_longer else text(sample.get("input")),
            messages=messages if is_longer else None,
            references=listed(sample.get("target")),
            system=output.get("model") or model,
            group=sample["id"],
            metrics=scores_in({name: one.get("value") for name, one in scores.items()}),
        )


_PROVIDER_FAILED = 2
"""promptfoo's `failureReason` if there is no answer (1: an assertion failed)."""


def promptfoo_rows(summary: Mapping[str, Any]) -> Iterator[ResultRow]:
    """Yield the results of promptfoo; `group` is the test, `system` the provider and the prompt."""
    inner = summary.get("results", summary)
    results = inner if isinstance(inner, list) else inner["results"]
    prompts = _numbered_prompts(results)
    for at, one in enumerate(results):
        test, prompt, name = one.get("testIdx", at), one.get("promptIdx", 0), _provider(one)
        parts = (one.get("gradingResult") or {}).get("componentResults") or ()
        asserted = {_assertion(part.get("assertion") or {}): part.get("score") for part in parts}
        yield row(
            id=f"{test}-{prompt}-{name}",
            output=text((one.get("response") or {}).get("output")),
            source=text((one.get("prompt") or {}).get("raw")),
            system=name
            if len({*prompts.values()}) < 2
            else f"{name}, prompt {prompts[name, prompt]}",
            group=test,
            metrics=scores_in({**_total(one, parts), **asserted, **_named(one)}),
        )


def _provider(one: Mapping[str, Any]) -> Any:
    provider = one.get("provider") or {}
    if not isinstance(provider, Mapping):
        return provider
    return provider.get("label") or provider.get("id")


def _numbered_prompts(results: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, int], int]:
    """Return the number of each prompt, by provider and promptfoo's number of the column.

    promptfoo counts a prompt anew for every provider. Prompts with one label have one id, so that
    one provider's columns with that id are told apart by their order.
    """
    columns = {(_provider(one), one.get("promptIdx", 0)): one.get("promptId") for one in results}
    seen: dict[tuple[Any, Any], int] = {}
    numbers: dict[tuple[Any, int], int] = {}
    known: dict[tuple[Any, int], int] = {}
    for (provider, column), prompt_id in sorted(columns.items(), key=lambda item: item[0][1]):
        # without ids the column is all that is known
        own = column if prompt_id is None else prompt_id
        before = seen.get((provider, own), 0)
        seen[provider, own] = before + 1
        numbers[provider, column] = known.setdefault((own, before), len(known))
    return numbers


def _named(one: Mapping[str, Any]) -> Mapping[str, Any]:
    return one.get("namedScores") or {}


def _total(one: Mapping[str, Any], parts: Iterable[Any]) -> dict[str, Any]:
    return {"score": one.get("score")} if _is_measured(one, parts) else {}


def _is_measured(one: Mapping[str, Any], parts: Iterable[Any]) -> bool:
    """Return whether a result's score says anything of its text.

    A test that asserts nothing passes with 1; a provider that fails, or answers nothing, gets 0.
    """
    if list(parts) or _named(one):
        return True
    if (graded := one.get("gradingResult")) is not None:
        return bool(graded.get("reason") != "No assertions")
    # promptfoo can be told to leave the grading out of its files
    failed = one.get("failureReason") == _PROVIDER_FAILED  # older files give no reason
    answered = (one.get("response") or {}).get("output") is not None
    return answered and not failed and bool((one.get("testCase") or {}).get("assert"))


def _assertion(assertion: Mapping[str, Any]) -> str:
    return str(assertion.get("metric") or assertion.get("type") or "assertion")


def deepeval_rows(run: Mapping[str, Any]) -> Iterator[ResultRow]:
    """Yield the test cases of DeepEval, from a test run's file or from `evaluate()`'s results."""
    run = run.get("testRunData", run)  # the file of the latest run wraps it
    cases = [*(_either(run, "testCases", "test_results") or ())]
    cases += _either(run, "conversationalTestCases", "conversational_test_cases") or ()
    for at, one in enumerate(cases):
        turns = one.get("turns") or None
        measured = _either(one, "metricsData", "metrics_data") or ()
        context = _either(one, "retrievalContext", "retrieval_context") or one.get("context")
        yield row(
            id=one.get("name") or f"test_case_{at}",
            output=_either(one, "actualOutput", "actual_output"),
            source=text(one.get("scenario") if turns else one.get("input")),
            messages=turns,
            references=listed(
                _either(one, "expectedOutcome", "expected_outcome")
                if turns
                else _either(one, "expectedOutput", "expected_output")
            ),
            context=context if isinstance(context, list) and len(context) > 1 else text(context),
            metrics=scores_in({m.get("name", "score"): m.get("score") for m in measured}),
        )


def lm_eval_rows(lines: Iterable[Mapping[str, Any]]) -> Iterator[ResultRow]:
    """Yield the samples of lm-evaluation-harness.

    If choices were scored, the likeliest is the text.
    """
    for one in lines:
        requests = _requests(one.get("arguments"))
        names = one.get("metrics") or [
            name
            for name in one
            if name not in _OF_THE_HARNESS and finite_number(one[name]) is not None
        ]
        filtered = one.get("filter")
        yield row(
            id=one["doc_id"] if filtered in (None, "none") else f"{one['doc_id']}-{filtered}",
            output=_answer(one, requests),
            source=text(requests[0][0]) if requests else None,
            references=listed(_target(one, requests)),
            group=one["doc_id"],
            metrics=scores_in({name: one.get(name) for name in names}),
        )


_OF_THE_HARNESS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash",
}  # fmt: skip


def _requests(arguments: Any) -> list[list[Any]]:
    """Return the requests of a sample, each prompt first.

    The harness has written them in two forms.
    """
    items = arguments.values() if isinstance(arguments, Mapping) else arguments or ()
    return [list(item.values()) if isinstance(item, Mapping) else list(item) for item in items]


def _answer(one: Mapping[str, Any], requests: list[list[Any]]) -> str | None:
    answers = one.get("filtered_resps") or one.get("resps") or [None]
    first = answers[0][0] if isinstance(answers[0], list) and answers[0] else answers[0]
    likelihoods = [
        finite_number(a[0]) if isinstance(a, list) and len(a) == 2 else None for a in answers
    ]
    if isinstance(first, str) and (finite_number(first) is None or None in likelihoods):
        return first
    if None in likelihoods or len(likelihoods) != len(requests):
        return None
    # Multiple choice in the harness is a likelihood per choice: the answer is the likeliest one.
    best = max(range(len(requests)), key=lambda at: likelihoods[at] or 0.0)
    return text(requests[best][1])


def _target(one: Mapping[str, Any], requests: list[list[Any]]) -> Any:
    """Return the target; for scored choices the harness records the index of the right one."""
    target = one.get("target")
    index, is_choice = str(target), len({str(request[0]) for request in requests}) == 1
    if len(requests) < 2 or not is_choice or not index.isdecimal():
        return target
    return requests[int(index)][1] if int(index) < len(requests) else target


def _either(values: Mapping[str, Any], camel: str, snake: str) -> Any:
    return values.get(camel, values.get(snake))


FORMATS: dict[str, Callable[[Any], Iterable[ResultRow]]] = {
    "inspect": inspect_rows,
    "promptfoo": promptfoo_rows,
    "deepeval": deepeval_rows,
    "lm-eval": lm_eval_rows,
}
"""Readers by the name of the tool."""


_DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What a file of another form raises: encrypted or damaged archives, JSON of any depth or shape."""
_UNPACKED, _RATIO = 2**30, 100
"""Bytes to which any archive may unpack, and how many times its own size a larger one."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a result file holds.

    Attributes:
        rows: Texts with their scores as `metrics`, in our format.
        empty: Results without a text, such as those of failed calls, which are left out.
    """

    rows: list[ResultRow]
    empty: int


def read_results(form: str, path: str | Path) -> Imported:
    """Read a result file of another tool."""
    if form not in FORMATS:
        raise UnknownName("format of results", form, tuple(FORMATS))
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is not a regular file")
    try:
        imported = list(FORMATS[form](_parsed(form, path)))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _DAMAGED as error:
        if isinstance(error, NotImplementedError) and "zstd" in str(error):
            raise DataError(
                f"{path}: is compressed with zstd, which Python reads from 3.14 on; "
                "pip install 'textassay[inspect]', or write it as JSON first: "
                "inspect log convert --to json"
            ) from error
        raise DataError(
            f"{path}: is not a result file of {form}: {type(error).__name__}: {error}"
        ) from error
    rows = _unique([one for one in imported if "output" in one or "messages" in one])
    if not rows:
        raise DataError(f"{path}: contains no results of {form} with a text")
    # Checked now, so that what is wrong is reported for the result file, not for a later copy of
    # it.
    Examples(rows).check()
    return Imported(rows, len(imported) - len(rows))


def _parsed(form: str, path: Path) -> Any:
    if form == "lm-eval" or path.suffix == ".jsonl":
        # `splitlines` would also split at U+2028 and others, which may stand in a JSON text as they
        # are
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        found = [json.loads(line) for line in lines if line.strip()]
        return found if form == "lm-eval" else {"results": found}
    if form == "inspect" and zipfile.is_zipfile(path):
        return _unzipped(path)
    return json.loads(path.read_bytes())  # of bytes, it finds out whether they are UTF-8 or UTF-16


def _unzipped(path: Path) -> dict[str, Any]:
    """Return an Inspect log that is a zip file: a header, and a file per sample."""
    with _zip_reader().ZipFile(path) as archive:
        # A log of a run that was interrupted has no header yet, only the journal's start.
        names = archive.namelist()
        head = "header.json" if "header.json" in names else "_journal/start.json"
        _refuse_bomb(path, archive.infolist())
        log: dict[str, Any] = json.loads(archive.read(head))
    names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    log["samples"] = _samples(path, dict.fromkeys(names))
    return log


def _samples(path: Path, names: Iterable[str]) -> Iterator[Any]:
    """Yield samples one by one, as they hold far more than the texts that are kept of them."""
    with _zip_reader().ZipFile(path) as archive:
        for name in names:
            yield json.loads(archive.read(name))


def _refuse_bomb(path: Path, files: Iterable[zipfile.ZipInfo]) -> None:
    """Refuse an archive that says that it unpacks to far more than it holds."""
    sizes = [file.file_size for file in files]
    if max(sizes, default=0) > MAX_LINE:
        raise DataError(f"{path}: contains a sample of more than {MAX_LINE:,} bytes")
    if sum(sizes) > max(_UNPACKED, _RATIO * path.stat().st_size):
        raise DataError(f"{path}: unpacks to {sum(sizes):,} bytes, far more than a log holds")


def _zip_reader() -> ModuleType:
    """Return the module `zipfile`, with zstd if a package or this Python has it."""
    try:
        # Inspect compresses with zstd by default; the standard library reads it from 3.14 on
        return importlib.import_module("backports.zstd.zipfile")
    except ImportError:
        return zipfile


def _unique(rows: list[ResultRow]) -> list[ResultRow]:
    """Number the ids that occur more than once, as those of repeated calls do."""
    seen: Counter[str] = Counter()
    taken = {one["id"] for one in rows}
    for one in rows:
        id_ = one["id"]
        seen[id_] += 1
        if seen[id_] > 1:
            while f"{id_}~{seen[id_]}" in taken:
                seen[id_] += 1
            one["id"] = f"{id_}~{seen[id_]}"
            taken.add(one["id"])
    return rows
