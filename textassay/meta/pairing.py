"""Which score is held against which human aspect, and which labels both of them have.

Knows names and labels; nothing of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textassay.runtime.data.label_reader import LabelReader
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import YES_NO, LabelScale, member_name, slug
from textassay.runtime.messages import Aspect


def pair_names(
    scores: Mapping[str, object],
    human: tuple[str, ...],
    aspect_map: Iterable[str] | Mapping[str, str],
) -> list[tuple[str, str]]:
    """Return (score, human aspect), each pair once, in order of scores.

    Args:
        scores: Recorded scores, or anything with their names as keys.
        human: The human aspects.
        aspect_map: As in `agreement_table`.

    Raises:
        DataError: There are no human aspects.
        UnknownName: The map names a score or human aspect that does not exist.
        ConfigurationError: Nothing pairs.
    """
    if not human:
        raise DataError(
            "the data contain no human ratings; give them in the field 'human', or on the command"
            " line in a file of their own (ratings=FILE)"
        )
    mapped: dict[str, list[str]] = {}
    for score, target in _entries(aspect_map):
        if score not in scores and not _has_members(score, scores):
            raise UnknownName("score in the aspect map", score, list(scores))
        if target not in human and not _has_members(target, human):
            raise UnknownName("human aspect in the aspect map", target, human)
        mapped.setdefault(score, []).append(target)
    for score, targets in list(mapped.items()):
        # an aspect of several labels stands for its labels
        for name in scores if score not in scores else ():
            label = name.removeprefix(f"{slug(score)}/")
            mapped[name] = [f"{slug(target)}/{label}" for target in targets if label != name]
    pairs = {
        (score, target): None
        for score in scores
        for target in mapped.get(score, [score])
        if target in human
    }
    if not pairs:
        raise ConfigurationError(
            f"no score has the name of a human aspect: scores {', '.join(scores)}; human aspects"
            f" {', '.join(human)}; say which belong together with aspect_map=SCORE=HUMAN"
        )
    return list(pairs)


def _has_members(name: str, names: Iterable[str]) -> bool:
    return any(one.startswith(f"{slug(name)}/") for one in names)


def label_reader(
    labels: Mapping[str, LabelScale], aspect_map: Iterable[str] | Mapping[str, str] = ()
) -> LabelReader:
    """Return what reads the words among scores and ratings that are held against each other.

    Args:
        labels: The labels of scores by name.
        aspect_map: As in `agreement_table`.
    """
    return LabelReader({**labels, **labels_of_people(labels, aspect_map)}, any_word=True)


def labels_of_task(
    aspects: Iterable[Aspect], aspect_map: Iterable[str] | Mapping[str, str] = ()
) -> dict[str, LabelScale]:
    """Return the labels of scores that are held against a task's aspects, by name of the score.

    Args:
        aspects: Of the task.
        aspect_map: As in `agreement_table`.
    """
    scores: dict[str, list[str]] = {}
    for score, human in _entries(aspect_map):
        scores.setdefault(human, []).append(score)
    found: dict[str, LabelScale] = {}
    for aspect in aspects:
        for score in scores.get(aspect.name, [aspect.name]):
            if (scale := aspect.label_scale) is not None:
                found[score] = scale
            found |= {
                member_name(score, label): YES_NO for label in aspect.labels if aspect.multiple
            }
    return found


def labels_of_people(
    labels: Mapping[str, LabelScale], aspect_map: Iterable[str] | Mapping[str, str] = ()
) -> dict[str, LabelScale]:
    """Return the labels that human ratings may be, by human aspect, for those of scores."""
    if not labels:
        return {}
    mapped: dict[str, list[str]] = {}
    for score, human in _entries(aspect_map):
        mapped.setdefault(score, []).append(human)
    return {human: scale for score, scale in labels.items() for human in mapped.get(score, [score])}


def _entries(aspect_map: Iterable[str] | Mapping[str, str]) -> Iterable[tuple[str, str]]:
    if isinstance(aspect_map, Mapping):
        yield from aspect_map.items()
        return
    for entry in [aspect_map] if isinstance(aspect_map, str) else aspect_map:
        # from the right: names of scores may hold "=", those of human aspects do not
        score, equals, target = entry.rpartition("=")
        if not (score and equals and target):
            raise ConfigurationError(f"the aspect map takes SCORE=HUMAN, not {entry!r}")
        yield score.strip(), target.strip()
