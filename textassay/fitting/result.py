"""What fitting yields: the evaluator with its report, as an object and as a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from textassay.display import Displayed
from textassay.fitting.agreement import EVALUATOR
from textassay.fitting.text import report_tables, text_of
from textassay.methods.fitted.evaluator import Evaluator, is_evaluator, load, save
from textassay.runtime.errors import ConfigurationError, RunFolderError, StorageError
from textassay.runtime.model import Json
from textassay.runtime.storage.files import write_json, write_text
from textassay.table import Table

REPORT, TEXT = "report.json", "report.txt"


@dataclass(repr=False)
class Fit(Displayed):
    """What `fit` learned; `evaluate(..., method=...)` takes it once it is saved.

    Attributes:
        evaluator: What judges, as JSON values and models.
        report: How it was learned, how well it agrees with people on held-out rows, and what it
            rests on; `report.json` of the folder.
        folder: The evaluator folder, which `save` sets; `None` if it was not saved.
        unscored: Ratings that the model did not give usably, by outcome; they count as gaps.
    """

    evaluator: Evaluator
    report: Json
    folder: Path | None = None
    unscored: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Fit:
        """Read an evaluator folder.

        Raises:
            ConfigurationError: It holds no evaluator, or one that was edited or is newer.
            RunFolderError: Its report cannot be read, or is none.
        """
        evaluator, file = load(Path(folder)), Path(folder) / REPORT
        try:
            report = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise RunFolderError(f"{file} cannot be read: {error}") from error
        try:
            found = cls(evaluator, report, Path(folder), dict(report.get("unscored", {})))
            # the report has no digest, and its parts are many: it is one if it can be shown
            repr(found), found.text
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise RunFolderError(
                f"{file} is not a report of fit ({type(error).__name__}: {error}); restore it, or"
                " fit again"
            ) from error
        return found

    @property
    def text(self) -> str:
        """The report in words; `report.txt` of the folder."""
        return text_of(self.report)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the evaluator folder, and make it this one's `folder`.

        The evaluator itself last, so that a folder with one is complete.

        Raises:
            StorageError: The folder cannot be written.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / REPORT, self.report)
            write_text(folder / TEXT, self.text)
            save(self.evaluator, folder)
        except OSError as error:
            raise StorageError(f"cannot write the evaluator to {folder}: {error}") from error
        self.folder = folder

    def __fspath__(self) -> str:
        """Return the folder, so that whatever takes one takes this.

        Raises:
            ConfigurationError: There is none, or it is gone.
        """
        if self.folder is None:
            raise ConfigurationError(
                "this evaluator has no folder: fit with out=FOLDER, or save it first with"
                " .save(FOLDER)"
            )
        if not is_evaluator(self.folder):
            raise ConfigurationError(
                f"{self.folder}, where this evaluator was saved, no longer contains it; save it "
                "again with .save(FOLDER)"
            )
        return str(self.folder)

    def __repr__(self) -> str:
        mean = self.report["held_out"]["mean"].get(EVALUATOR, {}).get("pearson")
        found = "undefined" if mean is None else f"{mean:.3f}"
        where = "in memory" if self.folder is None else repr(str(self.folder))
        return f"<Fit {where}: {self._learned}, held-out Pearson {found}>"

    @property
    def _learned(self) -> str:
        count = len(self.evaluator.features)
        features = "1 feature" if count == 1 else f"{count} features"
        return f"{self.report['aggregators']['chosen']} over {features}"

    def tables(self) -> list[Table]:
        """Return the report as tables."""
        return report_tables(self.report)
