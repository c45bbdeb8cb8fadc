"""Merges the shards in a run's folder into one run; the shards stay unchanged.

The manifest is written last: an interrupted merge leaves no run, and can be repeated.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from textassay.evaluation.manifest import check_manifest, describe_change
from textassay.evaluation.request import RunRequest, Shard, request_from_manifest
from textassay.evaluation.sources import open_examples, shard_bounds
from textassay.runtime.base import Usage, UsageTotal
from textassay.runtime.batches.batch import read_records
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError, RunFolderError, StorageError
from textassay.runtime.labels import without_order
from textassay.runtime.storage.answers import merge_answers
from textassay.runtime.storage.files import write_bytes, write_json, write_synced
from textassay.runtime.storage.run_files import (
    ANSWERS,
    FORMAT,
    MANIFEST,
    SCORES,
    SUMMARY,
    RunSummary,
    pair_digest,
    read_journal_lines,
    read_manifest,
    read_summary,
    summarize_journal,
)
from textassay.runtime.storage.run_folder import lock_run

_log = logging.getLogger(__name__)


def shard_folders(run: Path) -> list[Path]:
    """Return the folders `shard-*` of a run that contain a shard, unordered."""
    return [manifest.parent for manifest in run.glob(f"shard-*/{MANIFEST}")]


def is_divided(run: Path) -> bool:
    """Return whether a folder contains shards that are not merged yet."""
    return not (run / MANIFEST).exists() and bool(shard_folders(run))


@dataclass(frozen=True)
class MergeResult:
    """The result of `merge`."""

    missing: int
    """Number of pairs of example and aspect without a score; `resume` requests them."""
    differing: tuple[str, ...] = ()
    """Files of the method, such as a plan, that differ between shards; each is kept per shard."""
    absent: tuple[str, ...] = ()
    """Missing shards."""
    unneeded_batches: int = 0
    """Batches of shards that stay at the provider, since no score needs their answers."""


@dataclass(frozen=True)
class _Source:
    """One shard."""

    path: Path
    shard: Shard
    manifest: Mapping[str, Any]
    request: RunRequest

    @property
    def bounds(self) -> tuple[int, int]:
        """The first of its examples, and the one after the last."""
        count = self.manifest["data"]["count"]
        return shard_bounds(count, limit=self.request.limit, shard=self.request.shard)

    @property
    def expected(self) -> int | None:
        """Number of its pairs of example and aspect; `None` if its manifest does not record it."""
        aspects = self.manifest["method"].get("aspects")
        if aspects is None:
            return None
        start, stop = self.bounds
        return (stop - start) * len(aspects)


def merge(run: str | Path, *, partial: bool = False) -> MergeResult:
    """Merge `run/shard-*` into one run, one line per example and aspect, in the shards' order.

    Answers are merged if the shards store their own. Merging again, for instance after a shard was
    resumed, replaces the merged run unless it was itself resumed or edited. Shards that do not
    belong together, and without `partial` missing or unfinished shards, are refused before anything
    is changed. An id that is not among a shard's examples, which only an edited file can have, is
    refused if the unchanged data are on this machine.
    """
    run = Path(run)
    with ExitStack() as stack:
        sources = _sources(run)
        # locked before the checks: a shard that is still being written could change after them
        stack.callback(lock_run(run).release)
        for source in sources:
            stack.callback(lock_run(source.path).release)
        _check_replaceable(run)
        unneeded = _check_batches(sources)
        there, count = {source.shard for source in sources}, sources[0].shard.count
        every = (Shard(number, count) for number in range(1, count + 1))
        absent = tuple(str(shard) for shard in every if shard not in there)
        if absent and not partial:
            raise RunFolderError(
                f"{run} lacks {len(absent)} of {count} shards ({', '.join(absent[:8])}"
                f"{', ...' if len(absent) > 8 else ''}): run them, or merge the present ones with "
                "partial=True"
            )
        result = _merge(run, sources, partial=partial)
        return replace(result, absent=absent, unneeded_batches=unneeded)


def _sources(run: Path) -> list[_Source]:
    """Return the shards in order; refuse shards that do not belong together."""
    sources = []
    for path in shard_folders(run):
        manifest = read_manifest(path)
        check_manifest(path, manifest)
        request = request_from_manifest(manifest)
        if request.shard is None:
            raise RunFolderError(f"{path} is a run of all data, not of a shard (shard=I/N)")
        sources.append(_Source(path, Shard.parse(request.shard), manifest, request))
    if not sources:
        raise RunFolderError(
            f"{run} contains no shards: make them with `textassay score ... --shard I/N "
            f"--out {run / 'shard-I'}`"
        )
    sources.sort(key=lambda source: (source.shard.count, source.shard.number))
    first = sources[0]
    for before, source in pairwise(sources):
        if source.shard.count != first.shard.count:
            raise RunFolderError(
                f"{first.path} is shard {first.shard} and {source.path} is {source.shard}: "
                "the data were divided in different ways; move the shards of one division out of "
                f"{run}"
            )
        if source.shard == before.shard:
            raise RunFolderError(
                f"{before.path} and {source.path} are both shard {source.shard}; move one of them "
                f"out of {run}"
            )
        ours, theirs = _without_addresses(first.manifest), _without_addresses(source.manifest)
        if change := describe_change(ours, theirs) or _spec_change(first.request, source.request):
            raise RunFolderError(
                f"{source.path} cannot be merged with {first.path} because {change}; score "
                f"again the one that differs from the other shards, or move it out of {run}"
            )
    return sources


def _without_addresses(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest without the models' addresses, which may differ between machines."""
    models = {
        role: {**model, "identity": {**model["identity"], "api_base": None}}
        for role, model in manifest["models"].items()
    }
    return {**manifest, "models": models}


def _spec_change(ours: RunRequest, theirs: RunRequest) -> str:
    """Return in words how the requests of two shards differ; empty if they are equal."""
    if ours.models != theirs.models:
        return f"its models are {theirs.models}, not {ours.models}"
    if ours.limit != theirs.limit:
        return f"its limit is {theirs.limit!r}, not {ours.limit!r}"
    if (ours.calibration is None) != (theirs.calibration is None):
        return "only one of them is calibrated"
    return ""


def _check_replaceable(run: Path) -> None:
    """Refuse to overwrite a run that is not a merge, or whose scores changed since."""
    if not (run / MANIFEST).exists():
        return
    merged = read_manifest(run).get("merged")
    if not isinstance(merged, Mapping):
        raise RunFolderError(f"{run} is a separate run next to its shards; merge them elsewhere")
    if merged.get("digest") != _digest_of(run / SCORES):
        raise RunFolderError(
            f"{run} was merged before, and its scores changed since, as by `resume`: merging again "
            f"would lose them; remove {run / MANIFEST} if that is intended"
        )


def _check_batches(sources: Iterable[_Source]) -> int:
    """Refuse batches that the merged run would pay for again; return how many no score needs."""
    unneeded = 0
    for source in sources:
        batches = read_records(source.path).values()
        count = sum(batch.state != "collected" for batch in batches)
        if count and _is_settled(source):
            unneeded += count
        elif count:
            raise RunFolderError(
                f"{source.path} has {count} batch{'es' if count != 1 else ''} whose answers are "
                f"not collected: continue with `textassay resume {source.path}`, then merge"
            )
    return unneeded


def _is_settled(source: _Source) -> bool:
    tally = summarize_journal(source.path)
    return tally.pairs == source.expected and not tally.summary()["outcomes"].get("error")


def _merge(run: Path, sources: Sequence[_Source], *, partial: bool) -> MergeResult:
    tally, replaced = RunSummary(remember=False), UsageTotal()
    unfinished = run / f".{SCORES}.tmp"
    try:
        # counts and file come from the same pass, so that they agree
        write_synced(unfinished, _lines(sources, tally, replaced, partial=partial))
        tally.pay(replaced.usage)
        answers = [source.path / ANSWERS for source in sources if (source.path / ANSWERS).exists()]
        if answers:
            merge_answers(run / ANSWERS, reversed(answers))
        differing = _keep_artifacts(run, sources)
        # without a manifest the folder is not a run, so a crash in the next three lines leaves no
        # apparently complete run
        (run / MANIFEST).unlink(missing_ok=True)
        unfinished.replace(run / SCORES)
        write_json(run / SUMMARY, _summary(tally, sources))
        write_json(run / MANIFEST, _manifest(run, sources, tally.pairs, replaced.usage))
    except OSError as error:
        raise StorageError(f"{run} cannot be written: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    expected = shard_bounds(
        sources[0].manifest["data"]["count"], limit=sources[0].request.limit, shard=None
    )[1] * len(sources[0].manifest["method"].get("aspects", ()))
    return MergeResult(max(0, expected - tally.pairs), differing)


def _lines(
    sources: Sequence[_Source], tally: RunSummary, replaced: UsageTotal, *, partial: bool
) -> Iterator[bytes]:
    """Yield every line that no later line replaces, and count it."""
    seen: set[bytes] = set()
    data = _data(sources[0])
    for source in sources:
        before = len(seen)
        ids = None if data is None else {each.id for each in data.part(*source.bounds)}
        for score, line, is_last in read_journal_lines(source.path):
            if not is_last:
                # a replaced line cost money as well
                replaced.add(score.usage)
                continue
            if ids is not None and score.id not in ids:
                raise RunFolderError(
                    f"{source.path / SCORES}: {score.id!r} is not one of this shard's examples: the"
                    " file was edited; score the shard again, or move it elsewhere"
                )
            pair = pair_digest(score.id, score.aspect)
            if pair in seen:
                raise RunFolderError(
                    f"{source.path}: {score.id!r} on {score.aspect!r} is in an earlier shard, too: "
                    "a file was edited"
                )
            seen.add(pair)
            tally.add(score)
            yield line if line.endswith(b"\n") else line + b"\n"
        unique, expected = len(seen) - before, source.expected
        if not partial and expected is not None and unique < expected:
            raise RunFolderError(
                f"{source.path} is unfinished: it has {unique} of {expected} scores; continue with "
                f"`textassay resume {source.path}`, or merge the present ones with partial=True"
            )


def _data(source: _Source) -> Examples | None:
    """Return the data of the shards; `None` if they are not on this machine, or have changed."""
    path = source.request.data
    if path is None or not Path(path).exists():
        return None
    try:
        data = open_examples(path, source.request)
        return data if data.check().digest == source.manifest["data"]["digest"] else None
    except DataError:  # it has changed so much that it cannot be read
        return None


def _keep_artifacts(run: Path, sources: Sequence[_Source]) -> tuple[str, ...]:
    """Copy the method's files; a file that differs is copied per shard, as `plan.shard-2.toml`."""
    contents: dict[str, dict[str, bytes]] = {}
    of_every_run = {MANIFEST, SCORES, SUMMARY, "batches.jsonl", "rows.jsonl"}
    for source in sources:
        for file in sorted(source.path.iterdir()):
            is_own = file.name in of_every_run or file.name.startswith(".")
            if file.is_file() and not file.is_symlink() and not is_own:
                contents.setdefault(file.name, {})[source.path.name] = file.read_bytes()
    for name, by_shard in contents.items():
        if len(set(by_shard.values())) == 1:
            write_bytes(run / name, next(iter(by_shard.values())))
            continue
        for shard, content in by_shard.items():
            write_bytes(run / f"{Path(name).stem}.{shard}{Path(name).suffix}", content)
    return tuple(name for name, by_shard in contents.items() if len(set(by_shard.values())) > 1)


def _summary(tally: RunSummary, sources: Sequence[_Source]) -> dict[str, Any]:
    """Return the summary: it begins with the first shard, and its duration is the sum."""
    summaries = [read_summary(s.path) for s in sources if (s.path / SUMMARY).exists()]
    started = min((s["started"] for s in summaries if "started" in s), default=None)
    seconds = round(sum(s.get("seconds", 0.0) for s in summaries), 3)
    timing = {} if started is None else {"started": started, "seconds": seconds}
    # the shards of a run have the same aspects
    counted = tally.summary(without_order(read_manifest(sources[0].path)))
    return {"format": FORMAT, **counted, **timing}


def _manifest(
    run: Path, sources: Sequence[_Source], scores: int, replaced: Usage
) -> dict[str, Any]:
    first = sources[0].manifest
    return {
        **first,
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "spec": {**first["spec"], "shard": None},
        **({"sent": sent} if (sent := _facts_of_models(sources)) else {}),
        "merged": {
            "shards": {str(source.shard): source.path.name for source in sources},
            "of": sources[0].shard.count,
            "scores": scores,
            "digest": _digest_of(run / SCORES),
            "replaced": replaced.model_dump(),
        },
    }


def _facts_of_models(sources: Sequence[_Source]) -> dict[str, dict[str, Any]]:
    """Return what the shards learned of their models; tell if models of other names answered."""
    learned = [(source.manifest.get("sent") or {}) for source in sources]
    merged: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for each in learned for name in each):
        facts = [each[name] for each in learned if name in each]
        merged[name] = {**facts[0]}
        answered = dict.fromkeys(other for fact in facts for other in fact.get("answered_as", ()))
        if answered:
            merged[name]["answered_as"] = [*answered]
        if len(answered) > 1:
            _log.warning(
                "the answers of %s come from several models: %s; scores of all have the same"
                " signature",
                name,
                ", ".join(map(repr, answered)),
            )
    return merged


def _digest_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
