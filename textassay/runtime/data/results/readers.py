"""One reader per tool: from the parsed file to rows in our format.

Field names are those of Inspect's `EvalLog`, promptfoo's `EvaluateSummary` (versions 2 and 3),
DeepEval's `TestRun` and lm-evaluation-harness' `--log_samples`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from textassay.runtime.data.exports import attached
from textassay.runtime.data.result_rows import (
    ResultRow,
    finite_number,
    listed,
    row,
    scores_in,
    text,
)


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
