"""The calibration folder.

What `calibrate` learned, bound to the judge, and applied to its later scores.

    calibration.json   one map per aspect, with a digest over all of it
    report.json        how well it works on other sources, and the same as text in report.txt

Knows files and scores; nothing of models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from textassay.calibration.calibration import AspectCalibration, read_aspect
from textassay.runtime.errors import ConfigurationError, DataError, StorageError
from textassay.runtime.messages import Score
from textassay.runtime.storage.files import (
    check_new_folder,
    read_sealed,
    write_json,
    write_sealed,
    write_text,
)
from textassay.version import __version__

FORMAT = 1
FILE, REPORT, TEXT = "calibration.json", "report.json", "report.txt"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration folder holds.

    Attributes:
        aspects: One per score, in order.
        sources: Digests of the sources whose ratings it was learned from.
    """

    aspects: tuple[AspectCalibration, ...]
    sources: frozenset[str]

    def of(self, aspect: str) -> AspectCalibration | None:
        """Return the calibration of a score; `None` if it has none."""
        return next((one for one in self.aspects if one.aspect == aspect), None)

    def check(self, aspect: str, signature: str, *, allow_change: bool = False) -> None:
        """Refuse scores of another judge.

        Raises:
            ConfigurationError: The signature differs from that of the scores it was learned from.
        """
        own = self.of(aspect)
        if own is None or allow_change or own.signature == signature:
            return
        raise ConfigurationError(
            f"the calibration of {aspect!r} was learned from scores of "
            f"{own.signature or 'no signature'!r}, but these are of "
            f"{signature or 'no signature'!r}: another judge, prompt or setting makes different "
            "errors. Calibrate again, or set allow_change=true if the differences do not matter"
        )

    def applied(self, score: Score, *, allow_change: bool = False) -> Score:
        """Return a score with `calibrated`, `low` and `high`.

        Unscored ones and other aspects as they are.

        Raises:
            ConfigurationError: It is of another judge.
        """
        own = self.of(score.aspect)
        if own is None or score.value is None:
            return score
        self.check(score.aspect, score.signature, allow_change=allow_change)
        calibrated = own.apply(np.array([score.value]))
        # extrapolating would look as certain as the rest; the raw score stays, marked as outside
        if calibrated.outside[0]:
            return score.model_copy(update={"outside": True})
        ends = (calibrated.values[0], calibrated.low[0], calibrated.high[0])
        values = dict(zip(("calibrated", "low", "high"), map(float, ends), strict=True))
        return score.model_copy(update={**values, "outside": False})


def save(
    aspects: Sequence[AspectCalibration],
    reports: Sequence[dict[str, Any]],
    text: str,
    out: Path,
    *,
    sources: frozenset[str],
    made: Mapping[str, Any],
) -> None:
    """Write a calibration folder.

    Args:
        aspects: One per score.
        reports: How well each works.
        text: The reports as text.
        out: A new or empty folder.
        sources: Digests of the sources with ratings.
        made: Seed and what else is needed to repeat it.

    Raises:
        RunFolderError: The folder holds something.
        StorageError: It cannot be written.
    """
    check_new_folder(out)
    content = {
        "aspects": [one.to_dict() for one in aspects],
        "sources": sorted(sources),
        "made": {"textassay": __version__, **made},
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        # the calibration is written last: a folder that was interrupted holds no
        # `calibration.json`, and `load` refuses it
        write_json(out / REPORT, {"format": FORMAT, "aspects": list(reports)})
        write_text(out / TEXT, text)
        write_sealed(out / FILE, content, format=FORMAT)
    except OSError as error:
        raise StorageError(f"the calibration cannot be written to {out}: {error}") from error


def load(folder: str | Path) -> Calibration:
    """Read a calibration folder.

    Raises:
        ConfigurationError: The folder holds none, or one of a newer format or changed by hand.
        DataError: Its content is damaged.
    """
    path = Path(folder) / FILE
    content = read_sealed(
        path,
        format=FORMAT,
        kind="calibration",
        missing=f"{folder} contains no {FILE}; make a calibration with textassay calibrate",
        repair="calibrate again",
    )
    aspects, sources = content.get("aspects"), content.get("sources")
    if not isinstance(aspects, list) or not isinstance(sources, list):
        raise DataError(f"{path} contains no calibration")
    return Calibration(tuple(read_aspect(one) for one in aspects), frozenset(sources))


def source_digest(source: str) -> str:
    """Return 12 hex digits that stand for a source, so that its ratings are known again."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:12]
