"""`Examples`: a data set from files, tables or iterables, validated before any model is called.

The unit of a conversation is all of it, each turn of the assistant or each call of a tool.
Turns and calls of one conversation are not independent, so they share a `group`; systems are paired
within groups.

Large files are streamed: memory does not grow with their rows, except for 16 bytes per id during
the check. The examples of a small file are kept after the check, so that it is read once.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from operator import itemgetter
from pathlib import Path
from struct import iter_unpack
from typing import Any

import orjson

from textassay.runtime.base import Message
from textassay.runtime.chat_formats import short_repr
from textassay.runtime.conversation import (
    CONVERSATION_CHARS,
    LEAST_CHARS,
    UNITS,
    ConversationMessage,
    Passage,
    Piece,
    Unit,
    answer_piece,
    conversation_pieces,
    conversation_text,
    count_left_out,
    last_turn,
    passages_text,
    source_beside,
)
from textassay.runtime.data.by_rater import RowsByRater, one_row_per_example
from textassay.runtime.data.cells import FieldError, to_json_value
from textassay.runtime.data.columns import FieldReader, is_inside, with_means
from textassay.runtime.data.files import open_table
from textassay.runtime.data.material import OTHER_OUTPUT, OTHER_SYSTEM
from textassay.runtime.data.ratings import RATER, LabelReader, WithRatings, read_names
from textassay.runtime.data.separated import RowSource
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.images import Image
from textassay.runtime.labels import LabelSets
from textassay.runtime.messages import Example
from textassay.runtime.rubric import circle_of

OPTIONAL = ("source", "context", "references", "system", "group")
"""Fields that a method may need and a data set may lack."""


MAX_KEPT_BYTES = 16 * 2**20
"""Memory that the examples of a small data set may take between the check and the run."""

_optional = itemgetter(*OPTIONAL)

MAX_LISTED_IMAGES = 1000
"""Number of image files that a manifest names; the digest of the data covers all of them."""


class DataInfo(Message):
    """Facts about a data set after its check."""

    name: str
    """Path of the file, or type of the table."""
    count: int
    """Number of examples, at least 1."""
    digest: str
    """SHA-256, in hex, of the examples in order; the same for equal examples in files of different
    formats."""
    present: dict[str, int]
    """Number of examples that have each of `source`, `context`, `references`, `system` and
    `group`."""
    human: dict[str, int]
    """Number of examples with a mean human rating, by aspect, in order of appearance."""
    metrics: dict[str, int]
    """Number of examples with a recorded score, by name, in order of appearance."""
    compared: int = 0
    """Number of examples with a second text, `output_b`."""
    rubrics: int = 0
    """Number of examples with a rubric."""
    circular: int = 0
    """Number of examples with criteria that depend on each other in a circle."""
    circle: tuple[str, ...] = ()
    """Ids of such criteria in the first of these examples."""
    shortened: int = 0
    """Number of examples whose conversation is shortened in prompts."""
    images: int = 0
    """Number of examples with images."""
    image_files: dict[str, str] = {}
    """SHA-256 by path, as in the data, of the first `MAX_LISTED_IMAGES` image files."""
    unseen: dict[str, int] = {}
    """Number of rows with each column that judges do not see, in order of appearance; without
    columns that the field map maps to `meta`.
    """
    unused_map: dict[str, str] = {}
    """Ratings and metrics in the field map that are in no row."""
    without_answer: int = 0
    """Number of examples with passages and an empty output, such as spans of a retriever."""
    unit: Unit = "conversation"
    """The unit of conversations."""
    reading: tuple[str, ...] = ()
    """Unusual facts about the reading: encoding, titles above the header, numbers that name the
    better of two texts.
    """

    @property
    def notices(self) -> tuple[str, ...]:
        """Parts of the data that judges do not see, and possible faults, in sentences."""
        sentences = list(self.reading)
        if self.shortened:
            sentences.append(
                f"{self.shortened:,} of {self.count:,} conversations are shortened in prompts, tool"
                " results first (conversation_chars)"
            )
        if self.unseen:
            first = next((name for name in self.unseen if not is_inside(name)), "")
            hint = f'; show one with fields={{"{first}": "context"}}' if first else ""
            sentences.append(
                f"the judge does not see: {', '.join(self.unseen)} (kept in meta{hint})"
            )
        for theirs, ours in self.unused_map.items():
            sentences.append(f"no row has {theirs!r}, which the field map reads as {ours!r}")
        if self.without_answer:
            sentences.append(
                f"{self.without_answer:,} of {self.count:,} rows have passages and no answer, as"
                " spans of a retriever do: their output is empty"
            )
        if self.circular:
            sentences.append(
                f"in {self.circular:,} of {self.count:,} rubrics, criteria depend on each other in"
                f" a circle ({', '.join(self.circle)}): each counts only if all of them are met"
            )
        return tuple(sentences)

    @property
    def has_groups(self) -> bool:
        """Whether any example has a group."""
        return self.present["group"] > 0


class _Survey:
    """Counts the contents of a data set's examples, for its `DataInfo`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Counts by name of the field of `DataInfo`."""
        self.shapes: Counter[tuple[bool, ...]] = Counter()
        """Number of examples with the same fields of `OPTIONAL`."""
        self.human: Counter[str] = Counter()
        self.metrics: Counter[str] = Counter()
        self.circle: tuple[str, ...] = ()
        self.image_files: dict[str, str] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """Count the fields of one example."""
        counts = self.counts
        self.shapes[tuple(map(bool, _optional(values)))] += 1
        if values["meta"]:
            counts["compared"] += isinstance(values["meta"].get(OTHER_OUTPUT), str)
        if values["rubric"]:
            counts["rubrics"] += 1
            if circle := circle_of(values["rubric"]):
                counts["circular"] += 1
                self.circle = self.circle or circle
        if values["passages"]:
            counts["without_answer"] += not values["output"]
        if values["images"]:
            counts["images"] += 1
            _list_images(values["images"], self.image_files)
        if values["messages"]:
            counts["shortened"] += count_left_out(values["source"]) is not None
        for ratings, names in ((values["human"], self.human), (values["metrics"], self.metrics)):
            if ratings:
                names.update(name for name, value in ratings.items() if value is not None)


class Examples:
    """A data set that can be iterated repeatedly; the first iteration checks it as a whole.

    >>> rows = [{"output": "It rained."}, {"response": "It snowed.", "human.fluency": 4}]
    >>> Examples(rows).check().human
    {'fluency': 1}
    """

    def __init__(
        self,
        source: Any,
        *,
        fields: Mapping[str, str] | None = None,
        needs_output: bool = True,
        unit: Unit | None = None,
        conversation_chars: int | None = None,
        labels: LabelSets | LabelReader | None = None,
        missing: Iterable[str] = (),
        strict_columns: bool = False,
    ) -> None:
        """Open a data set, without reading rows.

        Args:
            source: A path (.jsonl, .json, .csv, .tsv, each also .gz, .parquet or .xlsx), a pandas
                or polars data frame, an arrow table, a Hugging Face data set, or an iterable of
                examples or dicts.
            fields: From names in the rows to ours, such as `{"answer": "output", "coh":
                "human.coherence"}`; takes precedence over known names.
            needs_output: Whether a row without an output is an error; without this check, for uses
                of its numbers only, its output is empty.
            unit: The unit of a conversation: all of it, each `turn` of the assistant, or each
                `call` of a tool.
            conversation_chars: Longest text of a conversation; beyond it tool results are shortened
                first.
            labels: Labels of ratings, by aspect, or a reader of labels; known pairs such as pass
                and fail need not be declared.
            missing: Marks of missing values, such as `N/A`, ignoring case, in every field but `id`,
                `output` and `meta`; a number, such as `99`, only in ratings and metrics.
            strict_columns: Whether a column that judges do not see is an error.

        Raises:
            DataError: There is nothing to read, or the field map names a field that does not exist.
            ConfigurationError: There is no such unit, or the text would be too short.
        """
        self._unit: Unit = unit or "conversation"
        self._chars = CONVERSATION_CHARS if conversation_chars is None else conversation_chars
        if self._unit not in UNITS:
            raise ConfigurationError(f"the unit must be one of {', '.join(UNITS)}, not {unit!r}")
        if isinstance(self._chars, bool) or self._chars < LEAST_CHARS:
            raise ConfigurationError(
                f"conversation_chars must be at least {LEAST_CHARS:,}, not {conversation_chars!r}"
            )
        self._source = source
        self._table: RowSource = open_table(source)
        self._by_rater: RowsByRater | None = None
        # paths of images are relative to the file that names them
        self._folder = Path(source).parent if isinstance(source, str | os.PathLike) else None
        self._fields, self._needs_output = dict(fields or {}), needs_output
        self._strict_columns = strict_columns
        if isinstance(missing, str):
            raise ConfigurationError(f"missing= takes a list of marks, not {missing!r}")
        if isinstance(labels, LabelReader):
            self._labels = labels.marking(missing) if missing else labels
        else:
            self._labels = LabelReader(labels, missing)
        self._reader = self._reader_of(self._fields)
        self._state: object = None
        self._info: DataInfo | None = None
        self._kept: list[Example] = []

    def _reader_of(self, fields: Mapping[str, str]) -> FieldReader:
        return FieldReader(
            fields,
            needs_output=self._needs_output,
            conversation_chars=self._chars,
            labels=self._labels,
            folder=self._folder,
        )

    @property
    def name(self) -> str:
        """Path of the file, or type of the table."""
        return self._table.name

    def __str__(self) -> str:
        return self.name

    def is_same_file(self, other: object) -> bool:
        """Return whether both were opened by one path."""
        return self._folder is not None and self.name == str(other)

    @property
    def labels(self) -> LabelReader:
        """The reader of labels among ratings and metrics."""
        return self._labels

    def check(self) -> DataInfo:
        """Read all rows once and return the facts; later calls return the same object.

        Raises:
            DataError: A row is unusable, two have the same id, or there are no rows; names file,
                line and field.
        """
        if self._info is None:
            self._join_raters()
            # Before reading, so that a file that changes meanwhile does not pass as the checked
            # one.
            state = self._table.state()
            self._info = self._survey()
            self._state = state
        return self._info

    def _join_raters(self) -> None:
        joined = one_row_per_example(
            self._table, self._fields, self._labels, self._reader.fixed_columns
        )
        if joined:
            self._table = self._by_rater = joined
            self._reader = self._reader_of(joined.fields)
        elif any(self._has_column(key) for key, ours in self._fields.items() if ours == RATER):
            raise DataError(
                f"{self.name}: the field map names a column of raters, but the rows have no 'id',"
                " which tells whose ratings belong together"
            )

    def _has_column(self, key: str) -> bool:
        return any(isinstance(row, Mapping) and key in row for _, row in self._table.rows())

    def rater_names(self, aspect: str) -> tuple[str, ...]:
        """Return the raters of an aspect by name, in order of the ratings in `annotators`.

        Names come from columns (`annotators.coherence.ann`), from a column of raters, or from files
        of ratings; they are known after the examples are read, and empty without names.
        """
        if self._by_rater:
            return self._by_rater.raters
        return self._reader.rater_names(aspect) or read_names(self._source, aspect)

    def __iter__(self) -> Iterator[Example]:
        """Yield the examples in order, after `check`.

        Raises:
            DataError: As `check`, or the file has changed since.
        """
        return self.part(0)

    def part(self, start: int, stop: int | None = None) -> Iterator[Example]:
        """Yield consecutive examples, after `check`, without making the earlier ones again.

        Args:
            start: The first, counted from 0.
            stop: The one after the last; `None` for all that follow.

        Raises:
            DataError: As `check`, or the file has changed since.
        """
        self.check()
        self._check_unchanged()
        if self._kept:
            yield from self._kept[start:stop]
        else:
            for _, _, example in self._read(start, stop):
                yield with_means(example, self._labels)
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self._table.state() != self._state:
            raise DataError(f"{self.name}: has changed since it was checked; start again")

    def _read(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Any, Example]]:
        if self._unit == "conversation":
            return self._read_rows(start, stop)
        return islice(self._in_units(), start, stop)

    def _in_units(self) -> Iterator[tuple[int, Any, Example]]:
        for number, row, example in self._read_rows():
            try:
                for part in in_units(example, self._unit, self._chars):
                    yield number, row, part
            except FieldError as error:
                raise self._table.error(number, error) from None

    def _read_rows(
        self, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, Any, Example]]:
        table, make = self._table, self._reader.example
        decimal, is_plain = table.decimal, table.is_plain
        for number, row in islice(table.rows(), start, stop):
            try:
                example = make(row, decimal=decimal, is_plain=is_plain)
            except FieldError as error:
                raise self._table.error(number, error) from None
            except RecursionError:
                raise self._table.error(number, "is nested too deeply") from None
            yield number, row, example

    def _survey(self) -> DataInfo:
        content, ids, survey = hashlib.sha256(), bytearray(), _Survey()
        self._reader.unseen.clear()
        in_memory: list[Example] = []
        room = MAX_KEPT_BYTES
        for number, _, example in self._read():
            try:
                line = _canonical(example)
            except FieldError as error:
                raise self._table.error(number, error) from None
            except RecursionError:
                raise self._table.error(number, "is nested too deeply") from None
            content.update(line)
            rated = with_means(example, self._labels)
            room -= len(line) + 1000  # of an example in memory, besides its texts
            if room >= 0:
                in_memory.append(rated)
            else:
                in_memory.clear()
            values = vars(rated)
            # Digests in one bytearray: a set of a million ids would take ten times the memory.
            ids += hashlib.blake2b(values["id"].encode(), digest_size=16).digest()
            room -= sum(len(image.place) for image in values["images"])
            survey.add(values)
        self._check_whole(ids)
        self._kept = in_memory
        return DataInfo(
            name=self.name,
            count=len(ids) // 16,
            digest=content.hexdigest(),
            present={
                name: sum(count for shape, count in survey.shapes.items() if shape[at])
                for at, name in enumerate(OPTIONAL)
            },
            human=dict(survey.human),
            metrics=dict(survey.metrics),
            circle=survey.circle,
            image_files=survey.image_files,
            unseen=dict(self._reader.unseen) or _unseen_of(self._source),
            unused_map=self._unused_ratings(),
            unit=self._unit,
            reading=(*self._table.notices, *self._reader.notices),
            **survey.counts,
        )

    def _check_whole(self, ids: bytearray) -> None:
        """Raise for faults of the data as a whole, given the digests of all ids."""
        if not ids:
            if self._unit != "conversation" and any(True for _ in self._read_rows()):
                lacking = "a turn of an assistant" if self._unit == "turn" else "a call of a tool"
                raise DataError(
                    f"{self.name}: no conversation contains {lacking}, which the unit"
                    f" {self._unit!r} judges; judge whole conversations"
                    f" (unit='conversation'), or give the messages with it"
                )
            raise DataError(f"{self.name}: contains no examples")
        # A misspelled name in the field map would otherwise lose a column in silence.
        if unused := self._reader.unused_keys() - self._unused_ratings().keys():
            raise DataError(
                f"{self.name}: no row has the field {min(unused)!r} that the field map names"
            )
        unseen = [name for name in self._reader.unseen if not is_inside(name)]
        if self._strict_columns and unseen:
            raise DataError(
                f"{self.name}: no judge sees {', '.join(unseen)} (strict_columns=True); map each"
                f' column, such as fields={{"{unseen[0]}": "context"}}, or keep it in meta:'
                f' fields={{"{unseen[0]}": "meta"}}'
            )
        if pair := _first_repeat(ids):
            raise self._repeat(*pair)

    def _unused_ratings(self) -> dict[str, str]:
        """Return mapped ratings and notes that no row has, as new data are not rated yet."""
        fields = self._reader.fields
        return {
            key: fields[key]
            for key in sorted(self._reader.unused_keys())
            if fields[key].partition(".")[0] in ("human", "annotators", "metrics", "meta")
        }

    def _repeat(self, first: int, second: int) -> DataError:
        """Describe two rows with one id, given how many rows precede each."""
        numbered = islice(enumerate(self._read()), second + 1)
        one, two = (example for index, example in numbered if index in (first, second))
        where = f"{self.name}, {self._table.unit}s {one[0]} and {two[0]}"
        if self._reader.gives_id(one[1]) or self._reader.gives_id(two[1]):
            hint = '; if each row is from one rater, map their column: fields={"COLUMN": "rater"}'
            return DataError(
                f"{where}, field 'id': both are {short_repr(two[2].id)}; ids must be unique"
                f"{hint if one[2].output == two[2].output else ''}"
            )
        return DataError(
            f"{where}: have no ids and equal content; give each row an 'id', or keep one of them"
        )


def _unseen_of(source: Any) -> dict[str, int]:
    """Return the columns that judges do not see."""
    inner = source.examples if isinstance(source, PairedExamples | WithRatings) else None
    return inner.check().unseen if isinstance(inner, Examples) else {}


def _canonical(example: Example) -> bytes:
    """Return the same bytes for equal examples."""
    content = {**vars(example)}
    # examples without them keep the digest that they had before these fields existed
    passages, messages = content.pop("passages"), content.pop("messages")
    if rubric := content.pop("rubric"):
        content["rubric"] = [criterion.model_dump() for criterion in rubric]
    if images := content.pop("images"):
        content["images"] = [(image.name, image.digest) for image in images]
    if passages or messages:
        content["passages"] = [passage.model_dump() for passage in passages]
        content["messages"] = [message.model_dump() for message in messages]
    for name in ("human", "metrics"):
        # a null is like a missing key, and formats differ in which they write
        if None in content[name].values():
            content[name] = {k: value for k, value in content[name].items() if value is not None}
    try:
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        # rows were checked when they were read, but copies of messages and passages were not
        for name, value in content.items():
            try:
                to_json_value(value)
            except ValueError as error:
                raise FieldError(name, str(error)) from None
        # only the depth is left to check, and only `meta` may be deep
        raise FieldError(
            "meta", "is nested more than 250 levels deep; flatten it or leave it out"
        ) from None


def _list_images(images: Iterable[Image], files: dict[str, str]) -> None:
    for image in images:
        if image.digest and not image.place.startswith("data:") and len(files) < MAX_LISTED_IMAGES:
            files[image.name] = image.digest


def _first_repeat(ids: bytearray, few: int = 100_000) -> tuple[int, int] | None:
    """Return the places of the first repeated id and of its repeat; `None` without a repeat.

    More than `few` ids are checked with numpy: its 17 MB and its import cost less than a larger
    set.
    """
    if len(ids) <= 16 * few and len(set(iter_unpack("16s", ids))) == len(ids) // 16:
        return None
    import numpy as np  # here, since it takes a tenth of a start

    digests = np.frombuffer(ids, dtype="<u8").reshape(-1, 2)
    order = np.lexsort((digests[:, 0], digests[:, 1]))  # stable: equal ids stay in order
    sorted_ids = digests[order]
    repeats = np.flatnonzero((sorted_ids[1:] == sorted_ids[:-1]).all(axis=1))
    if not len(repeats):
        return None
    # The first repeat in the data, where its user will look.
    at = repeats[np.argmin(order[repeats + 1])]
    return int(order[at]), int(order[at + 1])


def in_units(example: Example, unit: Unit, chars: int) -> Iterator[Example]:
    """Yield the turns or calls of a conversation, each with everything before it.

    The group is the conversation's own, since conversations of one group depend on each other as
    well, or else the conversation. Ratings and recorded scores are of the whole conversation, so
    turns and calls have none.
    """
    if not example.messages:
        raise FieldError("messages", f"are missing; the unit {unit} is a part of a conversation")
    messages = example.messages
    pieces = conversation_pieces(messages)
    if example.output.strip() and answer_piece(pieces, example.output) is None:
        # an output in addition to the conversation is its last answer
        messages = (*messages, ConversationMessage(role="assistant", content=example.output))
        pieces = conversation_pieces(messages)
    source = source_beside(example.source, example.messages)
    for last, output, name in _turns(pieces) if unit == "turn" else _calls(pieces):
        history = _history(messages, last, pieces)
        passages = example.passages or _passages(messages, pieces, last.turn)
        is_end = unit == "turn" and last.turn == last_turn(pieces)
        text = conversation_text(history, output, chars)
        yield example.model_copy(
            update={
                "id": f"{example.id}#{name}",
                "output": output,
                "source": f"{source}\n\n{text}" if source else text,
                "context": example.context or passages_text(passages) or None,
                "passages": passages,
                "messages": history,
                "images": _images(example, [source, output, *(m.content for m in history)]),
                "references": example.references if is_end else (),
                "rubric": example.rubric if is_end else (),
                "group": example.id if example.group is None else example.group,
                "human": {},
                "annotators": {},
                "metrics": {},
                "meta": {**example.meta, "conversation": example.id},
            }
        )


def _turns(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str, str]]:
    """Yield the last piece, the output and the name of each turn of the assistant."""
    for number in range(1, last_turn(pieces) + 1):
        of_turn = [piece for piece in pieces if piece.turn == number]
        spoken = [p for p in of_turn if p.kind == "text" and p.speaker.startswith("assistant")]
        calls = [p.text for p in of_turn if p.kind == "call"]
        if spoken:
            yield of_turn[-1], spoken[-1].text, f"turn-{number}"
        elif calls:  # a turn of calls without text
            yield of_turn[-1], "\n".join(calls), f"turn-{number}"


def _calls(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str, str]]:
    for piece in pieces:
        if piece.kind == "call":
            yield piece, piece.text, f"turn-{piece.turn}-call-{piece.call}"


def _history(
    messages: Sequence[ConversationMessage], last: Piece, pieces: Sequence[Piece]
) -> tuple[ConversationMessage, ...]:
    """Return the messages up to a piece, which ends its message or is a call."""
    *before, message = messages[: last.message + 1]
    if last.kind == "call":
        first = next(p.call for p in pieces if p.message == last.message and p.kind == "call")
        update: dict[str, Any] = {"calls": message.calls[: last.call - first + 1]}
        message = message.model_copy(update=update)
    return (*before, message)


def _images(example: Example, texts: Sequence[str]) -> tuple[Image, ...]:
    """Return the images in these texts: a judge does not see images of later turns."""
    return tuple(image for image in example.images if any(image.mark in text for text in texts))


def _passages(
    messages: Sequence[ConversationMessage], pieces: Sequence[Piece], turn: int
) -> tuple[Passage, ...]:
    """Return the passages that were retrieved for a turn."""
    places = dict.fromkeys(piece.message for piece in pieces if piece.turn == turn)
    return tuple(passage for at in places for passage in messages[at].passages)


class PairedExamples:
    """The pairs of systems in each group, built at each iteration.

    `human` of a pair names the text with the higher rating: 1 for the first, 0 for the second, 0.5
    for equal ratings.
    """

    def __init__(self, examples: Iterable[Example]) -> None:
        self.examples = examples

    def __iter__(self) -> Iterator[Example]:
        groups = self._by_group().values()
        if max(map(len, groups), default=0) < 2:
            raise DataError("no group has texts of two systems, so there is nothing to compare")
        for members in groups:
            for first, second in combinations(sorted(members), 2):
                yield pair(members[first], members[second])

    def _by_group(self) -> dict[str, dict[str, Example]]:
        groups: dict[str, dict[str, Example]] = {}
        for example in self.examples:
            if example.group is None or example.system is None:
                lacking = "group" if example.group is None else "system"
                raise DataError(
                    f"the example {example.id!r} has no {lacking!r}; systems are paired within"
                    " groups, so give every row both"
                )
            members = groups.setdefault(example.group, {})
            if example.system in members:
                raise DataError(
                    f"the examples {members[example.system].id!r} and {example.id!r} are both of"
                    f" system {example.system!r} in group {example.group!r}; one text per system"
                    " can be paired"
                )
            members[example.system] = example
        return groups


def pair(first: Example, second: Example) -> Example:
    """Return the comparison of two texts of one group."""
    for name in ("source", "context", "images"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours and theirs and ours != theirs:
            raise DataError(
                f"the examples {first.id!r} and {second.id!r} of group {first.group!r} have"
                f" different {'inputs' if name == 'source' else name}, and a comparison shows one;"
                " pair texts that answer the same input, or give whole conversations as outputs"
            )
    meta: dict[str, Any] = {**first.meta, OTHER_OUTPUT: second.output, OTHER_SYSTEM: second.system}
    return Example(
        id=f"{first.id} vs {second.id}",
        output=first.output,
        source=first.source or second.source,
        messages=first.messages if first.source else second.messages,
        context=first.context or second.context,
        passages=first.passages if first.context else second.passages,
        images=first.images or second.images,
        references=first.references,
        system=first.system,
        group=first.group,
        human=_read_preference(first, second),
        meta=meta,
    )


def _read_preference(first: Example, second: Example) -> dict[str, float | None]:
    return {
        aspect: 0.5 if a == b else float(a > b)
        for aspect, a in first.human.items()
        if a is not None and (b := second.human.get(aspect)) is not None
    }
