"""Finds the data of a table on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from reproduce.converters import DATA_SETS
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example

SUFFIXES = (".jsonl", ".jsonl.gz")
STAND_INS = {"summeval_raters": "summeval"}
"""Data sets that are a part of another one."""
JEVALS = "jevals: recorded answers of Jev, with the grades of HelpSteer2 and PubMedQA"
WITHOUT_CONVERTER = {
    "jev_helpsteer2": JEVALS,
    "jev_pubmedqa": JEVALS,
    "iwslt14": "HumanMT, https://www.cl.uni-heidelberg.de/statnlpgroup/humanmt (CC BY-NC-SA 4.0)",
}
"""Addresses of published data sets whose files could not be obtained."""


@dataclass
class DataSets:
    """The data that `--data` names: a folder, or files by name of the data set."""

    folders: list[Path] = field(default_factory=list)
    """Folders with `NAME.jsonl`, `NAME.jsonl.gz` or one of these in a folder `NAME`."""
    files: dict[str, Path] = field(default_factory=dict)
    """Files by name."""
    limit: int | None = None
    """Number of examples to use from the beginning of each data set; `None` for all."""

    @classmethod
    def named(cls, given: Iterable[str], *, limit: int | None = None) -> DataSets:
        """Read the values of `--data`: `FOLDER` or `NAME=FILE`.

        Raises:
            ConfigurationError: There is no such folder or file.
        """
        found = cls(limit=limit)
        for one in given:
            name, equals, path = one.partition("=")
            # an existing path wins, since names of folders may hold "="
            if equals and not Path(one).exists():
                if not Path(path).is_file():
                    raise ConfigurationError(f"--data {one}: there is no file {path}")
                found.files[name] = Path(path)
            elif Path(one).is_dir():
                found.folders.append(Path(one))
            else:
                raise ConfigurationError(
                    f"--data takes a folder or NAME=FILE, and there is no folder {one}"
                )
        return found

    def find(self, name: str) -> Path | None:
        """Return the file of a data set, or `None` if it is not here."""
        if name in self.files:
            return self.files[name]
        for folder in self.folders:
            for suffix in SUFFIXES:
                for path in (folder / f"{name}{suffix}", folder / name / f"{name}{suffix}"):
                    if path.is_file():
                        return path
        # the data set's own file, which has more rows, is looked for first
        return self.find(STAND_INS[name]) if name in STAND_INS else None

    def path(self, name: str) -> Path:
        """Return the file of a data set.

        Raises:
            ConfigurationError: It is not here; says where to get it.
        """
        found = self.find(name)
        if found is None:
            raise ConfigurationError(f"the data set {name!r} is not here: {how_to_get(name)}")
        return found

    def examples(self, name: str) -> list[Example]:
        """Return the examples of a data set.

        Raises:
            ConfigurationError: It is not here.
            DataError: A line is unusable.
        """
        found: list[Example] = []
        for example in Examples(self.path(name), needs_output=False):
            if self.limit is not None and len(found) == self.limit:
                break
            found.append(example)
        return found


def how_to_get(name: str) -> str:
    """Return instructions for a data set that is not on this machine."""
    name = STAND_INS.get(name, name)
    if name not in DATA_SETS:
        origin = f" of {WITHOUT_CONVERTER[name]}" if name in WITHOUT_CONVERTER else ""
        return (
            f"there is no converter for the files{origin}; give rows of your own with --data"
            f" {name}=FILE.jsonl"
        )
    return (
        f"fetch {DATA_SETS[name].files[0].where} and run"
        f" `python -m reproduce convert {name} FILE... --out FOLDER/{name}.jsonl`, then give"
        " --data FOLDER"
    )
