"""The result of an evaluation: scores, summary and tables, read from memory or from the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textassay.evaluation.progress import Progress
from textassay.runtime.messages import Score
from textassay.runtime.storage.run_folder import RunSummary, read_manifest, read_scores

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """A finished evaluation; iterating it yields its scores.

    With a run folder, scores are read from there when they are asked for, so that a large run does
    not stay in memory.
    """

    def __init__(
        self, *, folder: Path | None, scores: Sequence[Score] = (), progress: Progress | None = None
    ) -> None:
        """Store where the scores are.

        Args:
            folder: The run folder, or `None` for a run that wrote nothing.
            scores: The scores of a run without a folder.
            progress: The last state of the session that made it.

        Raises:
            RunFolderError: The folder holds no run.
        """
        if folder is not None:
            read_manifest(folder)
        self.folder, self.progress = folder, progress
        self._scores = scores

    @property
    def scores(self) -> list[Score]:
        """All scores, the last one for every example and aspect, in the order in which they came."""
        return list(self)

    def __iter__(self) -> Iterator[Score]:
        """Iterate over the scores."""
        return iter(self._scores) if self.folder is None else read_scores(self.folder)

    def summary(self) -> dict[str, Any]:
        """Return outcomes, errors by type, mean by aspect and usage, as `summary.json` has them."""
        tally = RunSummary()
        for score in self:
            tally.add(score)
        return tally.summary()

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a score, with the columns of `scores.jsonl`; needs pandas.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # heavy, and only this method's

        return pd.DataFrame(
            [score.model_dump(mode="json") for score in self], columns=list(Score.model_fields)
        )
