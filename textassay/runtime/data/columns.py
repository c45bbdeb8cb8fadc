"""Makes an `Example` of a row: aliases, field maps and flat columns.

Rows are mappings of any origin, so errors are a `FieldError`, which names only the field.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unicodedata import normalize

from pydantic import ValidationError

from textassay.runtime.chat_formats import has_unnamed_tool, short_repr
from textassay.runtime.column_names import GENERIC, RATERS, names_rater, plain_name
from textassay.runtime.conversation import CONVERSATION_CHARS
from textassay.runtime.data.cells import (
    KEYED,
    FieldError,
    advice,
    cell_from_text,
    finite,
    how_to_name,
    json_cell,
    list_or_text,
    objects_in_cell,
    texts_in,
    to_json_value,
)
from textassay.runtime.data.material import (
    IN_META,
    JOINED,
    MATERIAL,
    NAMES,
    OTHER_OUTPUT,
    OTHER_SYSTEM,
    assemble,
    check_not_images,
    has_value,
    how_to_map,
    is_invisible,
    is_running_text,
    is_shown,
    meaning_of,
    read_other_output,
    unread_names,
)
from textassay.runtime.data.numerals import DecimalMark, PercentColumns
from textassay.runtime.data.other_tools import ExportRow, reader_for
from textassay.runtime.data.preferences import PreferenceReader, check_not_index, verdict_of
from textassay.runtime.data.ratings import (
    RATER,
    SAMPLING_PROBABILITY,
    LabelReader,
    is_usual_mark,
)
from textassay.runtime.errors import DataError
from textassay.runtime.images import ImageReader, as_texts
from textassay.runtime.labels import majority
from textassay.runtime.messages import Example, content_id
from textassay.runtime.rubric import read_rubric

_EXPORTED = "\0exported"
"""Marks the keys of a row that was converted to our names."""


@dataclass(frozen=True)
class _ColumnLayout:
    """The fields for the values of rows with the same keys."""

    whole: tuple[tuple[str, str], ...]
    """Key of the row and its field."""
    parts: tuple[tuple[str, str, str], ...]
    """Key of the row, the keyed field that it belongs to, and its name in this field."""
    raters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Aspect, and the key of each rater's rating; `""` for a rater without one."""
    further: tuple[tuple[str, str], ...] = ()
    """Key of the row, and the field to which it adds a part beside the key in `whole`."""
    unseen: tuple[str, ...] = ()
    """Keys in `meta` that judges do not see, and that the field map does not map there."""
    rivals: tuple[tuple[str, str], ...] = ()
    """Key in `meta` and its field, which another key has taken: the row is refused if the field
    does not show its text.
    """
    generic: str = ""
    """Key of the output if its name, such as `text`, often means something else."""
    has_material: bool = False
    """Whether there are passages, messages, images or tools, which have to be assembled."""
    export: Callable[[ExportRow], ExportRow] | None = None
    """Converts rows of another tool to our names first."""

    @cached_property
    def images(self) -> tuple[str, ...]:
        """The keys of images."""
        return tuple(key for key, name in (*self.whole, *self.further) if name == "images")

    @cached_property
    def key_of(self) -> dict[str, str]:
        """The key of each field of `whole`."""
        return {name: key for key, name in self.whole}

    @cached_property
    def is_pair(self) -> bool:
        """Whether there are two texts to compare, so that ratings are preferences."""
        return any((name, part) == ("meta", OTHER_OUTPUT) for _, name, part in self.parts)

    @cached_property
    def rated(self) -> tuple[str, ...]:
        """The keys of people's ratings."""
        single = (key for _, keys in self.raters for key in keys if key)
        return (*(key for key, name, _ in self.parts if name == "human"), *single)

    @cached_property
    def meanings(self) -> tuple[tuple[str, str], ...]:
        """Every key, and its field, or `NAME.` for an entry of a field."""
        return (
            *self.whole,
            *self.further,
            *((key, "human.") for _, keys in self.raters for key in keys if key),
            *(
                (key, "output" if (name, part) == ("meta", OTHER_OUTPUT) else f"{name}.")
                for key, name, part in self.parts
            ),
        )


@dataclass(frozen=True)
class _ColumnClaims:
    """The meaning of a row's columns."""

    fields: dict[str, tuple[int, str]]
    """The rank and the key of each field."""
    further: list[tuple[str, str]]
    """Keys and fields of further parts, such as a second column of passages."""
    meta: dict[str, str]
    """Keys that are kept in `meta`, and the field of each, if any."""


_INSIDE = "[]."
"""Separator of the name of a field and the name of an entry of its messages."""


def is_inside(name: str) -> bool:
    """Return whether a name in `FieldReader.unseen` belongs to an entry of messages."""
    return _INSIDE in name


class FieldReader:
    """Makes examples of rows."""

    def __init__(
        self,
        fields: Mapping[str, str] | None = None,
        *,
        needs_output: bool = True,
        conversation_chars: int = CONVERSATION_CHARS,
        labels: LabelReader | None = None,
        folder: Path | None = None,
    ) -> None:
        self.fields = {
            theirs: IN_META.get(ours, ours)
            for theirs, ours in dict(fields or {}).items()
            if ours != RATER  # the column of raters, which `by_rater` reads
        }
        self.seen: set[str] = set()
        """Keys of the field map that occurred in a row so far."""
        self.unseen: Counter[str] = Counter()
        """Fields that judges do not see, and their number of rows; fields of messages are called
        `messages[].NAME`."""
        self._needs_output, self._chars = needs_output, conversation_chars
        self._labels, self._folder = labels or LabelReader(), folder
        self._preferences = PreferenceReader()
        self._taken_for_output: dict[str, None] = {}
        self._chats_as_text: dict[str, None] = {}
        self._chats_as_output: dict[str, None] = {}
        self._unnamed: dict[str, None] = {}
        self._percents = PercentColumns()
        self._layouts: dict[tuple[str, ...], _ColumnLayout] = {}
        # Columns of single raters by aspect, in order of appearance: a rater keeps the place of the
        # first row in rows with other keys.
        self._columns: dict[str, dict[str, None]] = {}
        self._paths = tuple(theirs for theirs in self.fields if "." in theirs)
        for theirs, ours in self.fields.items():
            field, dot, part = ours.partition(".")
            if (field not in NAMES) if not dot else (field not in KEYED or not part):
                swapped = f"; did you mean {{{ours!r}: {theirs!r}}}?" if theirs in NAMES else ""
                raise DataError(
                    f"field map: {theirs!r} leads to {ours!r}, which is not a field; fields:"
                    f" {', '.join((*NAMES, *IN_META))}, human.NAME, metrics.NAME, annotators.NAME,"
                    f" meta.NAME, rater{swapped}"
                )

    def example(
        self, row: Any, *, decimal: DecimalMark | None = None, is_plain: bool = False
    ) -> Example:
        """Return the example of a row; an `Example` is checked, as copies are not validated."""
        if isinstance(row, Example):
            self.seen.update(self.fields)  # the map was applied when it was made
            return _check_copy(row)
        try:
            return self._example(row, decimal, is_plain)
        except FieldError as error:
            # a field of another tool's export is not a column of the row
            if not error.column or error.column not in row:
                raise
            raise FieldError(None, f"{error}{how_to_map(error.column)}") from None

    def _example(self, row: Any, decimal: DecimalMark | None, is_plain: bool) -> Example:
        # the exact type first: `isinstance` of an abstract class takes longer than reading a field
        if type(row) is not dict and not isinstance(row, Mapping):
            raise FieldError(None, f"is {_kind(row)}, not an object with fields")
        row, layout = self._cells(row, decimal, is_plain)
        fields = self._texts(row, layout, is_cell=bool(decimal))
        if "rubric" in fields:
            self._read_rubric(fields, _key_of("rubric", layout))
        if self._needs_output:
            self._check_unseen(row, layout, fields)
        if layout.raters or layout.parts:
            _add_parts(fields, layout, row)
        if not self._needs_output:
            fields.setdefault("output", "")
        elif "output" not in fields and "output" not in layout.key_of:
            raise _no_output(row)
        if layout.is_pair:
            read_other_output(fields, ImageReader(self._folder))
            for key in layout.rated:
                check_not_index(key, row[key])
            self._read_preferences(fields, layout)
        return _validate(fields, layout, self._labels)

    def _cells(
        self, row: Mapping[Any, Any], decimal: DecimalMark | None, is_plain: bool
    ) -> tuple[Mapping[Any, Any], _ColumnLayout]:
        """Return a row with the values of its cells, and the meaning of its columns."""
        if self._paths:
            row = _take_out(row, self._paths)
        if isinstance(row.get("annotators"), Mapping):
            row = _raters_as_columns(row)
        layout = self._layouts.get(tuple(row)) or self._layout(row)
        for key in layout.images:  # tables in memory hold their bytes
            row = {**row, key: as_texts(row[key])}
        if not is_plain:
            row = {key: json_cell(key, row[key]) for key in row}
        if layout.export:
            row = layout.export(row)
            layout = self._layouts.get((_EXPORTED, *row)) or self._layout(row, exported=True)
        if self._labels.missing:
            row = {key: self._unless_missing(row[key], name) for key, name in layout.meanings}
        if decimal:
            is_label = self._is_rating if layout.is_pair else self._labels.are_known
            row = {
                key: cell_from_text(key, name, value, is_label, decimal, self._percents)
                if isinstance(value := row[key], str)
                else value
                for key, name in layout.meanings
            }
            output = layout.key_of.get("output", "")
            if type(row.get(output)) is list:
                self._chats_as_output[output] = None
        return row, layout

    def _texts(
        self, row: Mapping[Any, Any], layout: _ColumnLayout, *, is_cell: bool
    ) -> dict[str, Any]:
        """Return the fields that are whole columns, with lists and conversations parsed."""
        fields = {name: value for key, name in layout.whole if (value := row[key]) is not None}
        get = fields.get
        for name in ("references", "context"):
            text = get(name)
            # this is called for every row, and few texts begin like a list
            if type(text) is str and ((start := text.lstrip()[:10])[:1] in "[({<" or "(" in start):
                output = get("output") if name == "references" else ""
                fields[name] = texts_in(_key_of(name, layout), text, output, is_cell=is_cell)
        if (
            layout.has_material
            or type(get("source")) in (list, dict)
            or type(get("context")) in (list, dict)
            or type(get("output")) in (list, dict)
        ):
            if type(chat := get("messages")) is str and type(list_or_text(chat)) is str:
                self._chats_as_text[layout.key_of["messages"]] = None
            if has_unnamed_tool(get("tools"), get("messages")):
                self._unnamed["tools"] = None
            further = [(key, name, row[key]) for key, name in layout.further]
            images = ImageReader(self._folder)
            fields = assemble(fields, further, layout.key_of, self._chars, images)
            if any(not call.name for m in fields.get("messages", ()) for call in m.calls):
                self._unnamed["calls"] = None
        check_not_images(fields, layout.key_of, self._folder)
        for name in ("output", "source", "context"):
            if type(text := fields.get(name)) is str and is_invisible(text):
                fields[name] = ""
        context = fields.get("context")
        if type(context) is str and is_usual_mark(context):
            raise FieldError(
                _key_of("context", layout),
                f"is {context!r}, which usually marks a missing value; declare"
                f" missing=({context!r},), or write it as a list if it is a text: [{context!r}]",
            )
        return fields

    @property
    def notices(self) -> tuple[str, ...]:
        """How columns and ratings were read; complete after all rows are read."""
        notes = [f"the column {name!r} is judged, as the output" for name in self._taken_for_output]
        notes += [f"the text in {name!r} is shown as the source" for name in self._chats_as_text]
        notes += [
            f"lists of messages in {name!r} are read as conversations, of which the last answer is"
            " judged"
            for name in self._chats_as_output
        ]
        notes += [f"{kind} without the name of a tool are shown as JSON" for kind in self._unnamed]
        return (*notes, *self._preferences.notices)

    def _is_rating(self, text: str) -> bool:
        """Return whether a cell of a comparison is not a number."""
        return finite(text.replace(",", ".")) is None or self._labels.are_known(text)

    def _read_preferences(self, fields: dict[str, Any], layout: _ColumnLayout) -> None:
        """Read ratings of two texts as preferences, by place or by name."""
        meta = fields.get("meta") or {}
        of_other = {part: key for key, name, part in layout.parts if name == "meta"}
        sides = {
            str(name).casefold(): number
            for name, number in (
                (fields.get("system"), 1.0), (meta.get(OTHER_SYSTEM), 0.0),
                (layout.key_of.get("output"), 1.0), (of_other.get(OTHER_OUTPUT), 0.0),
            )
            if name
        }  # fmt: skip
        for field in ("human", "annotators", "metrics"):
            ratings = fields.get(field)
            if not isinstance(ratings, Mapping):
                continue
            as_preference = self._preferences.preference
            fields[field] = {
                name: value
                if name in self._labels.declared
                else verdict_of(value, sides)  # numbers of another judge may be anything
                if field == "metrics"
                else [as_preference(name, rating, sides) for rating in value]
                if isinstance(value, list | tuple)
                else as_preference(name, value, sides)
                for name, value in ratings.items()
            }

    def _unless_missing(self, value: Any, name: str) -> Any:
        """Return a value, or `None` for a mark of a missing value, which a judged text never is."""
        if name in ("id", "output", "meta", "meta."):
            return value
        is_rating = name.endswith(".")
        return None if self._labels.is_missing(value, is_rating=is_rating) else value

    def _check_unseen(
        self, row: Mapping[str, Any], layout: _ColumnLayout, fields: Mapping[str, Any]
    ) -> None:
        """Count fields that judges do not see, and refuse fields that they were meant to see."""
        for key in layout.unseen:
            if has_value(row[key]):
                self.unseen[key] += 1
        for key, target in layout.rivals:
            if not is_shown(row[key], fields):
                other = layout.key_of.get(target, target)
                raise FieldError(
                    key,
                    f"means {target!r}, and so does {other!r}; say what it is, such as"
                    f' fields={{"{key}": "context"}}',
                )
        if layout.generic:
            others = [key for key in layout.unseen if is_running_text(row[key])]
            if others:
                raise _unclear_output(layout.generic, others[0])
            # a short text, such as an answer of one word, may be the output as well
            if any(isinstance(row[key], str) for key in layout.unseen):
                self._taken_for_output[layout.generic] = None
        if "messages" in fields:
            for name in ("messages", "source", "output"):
                place = layout.key_of.get(name)
                for inner in unread_names(row[place]) if place else ():
                    self.unseen[f"{place}{_INSIDE}{inner}"] += 1

    def _read_rubric(self, fields: dict[str, Any], key: str) -> None:
        rubric = fields.pop("rubric")
        # Ragas' field of this name explains the ratings
        if isinstance(rubric, Mapping):
            meta = fields.get("meta")
            fields["meta"] = {**(meta if isinstance(meta, Mapping) else {}), key: rubric}
            self.unseen[key] += 1
            return
        try:
            fields["rubric"] = read_rubric(rubric)
        except ValueError as error:
            raise FieldError(key, str(error)) from None

    def unused_keys(self) -> set[str]:
        """Return the keys of the field map that have not occurred in a row."""
        return self.fields.keys() - self.seen

    def gives_id(self, row: Any) -> bool:
        """Return whether the row has an id of its own."""
        if isinstance(row, Example):
            texts = row.model_dump(exclude={"id"})
            sparse = {name: value for name, value in texts.items() if value}
            listed = {**sparse, "references": list(row.references)}
            return row.id not in {content_id(texts), content_id(sparse), content_id(listed)}
        row = _take_out(row, self._paths)
        layout = self._layout(row)
        if layout.export:
            row = layout.export(row)
            layout = self._layout(row, exported=True)
        return any(name == "id" and row[key] not in (None, "") for key, name in layout.whole)

    def _layout(self, row: Mapping[Any, Any], *, exported: bool = False) -> _ColumnLayout:
        keys = (_EXPORTED, *row) if exported else tuple(row)
        # Rows of a file mostly have the same keys, so aliases are resolved once rather than per
        # row.
        layout = self._layouts.get(keys)
        if not layout:
            # Rows with random keys must not fill the memory.
            if len(self._layouts) >= 256:
                self._layouts.clear()
            layout = self._layouts[keys] = self._make_layout(row, exported=exported)
        return layout

    def _adopt_spelling(self, keys: Collection[str]) -> None:
        """Name columns in the field map as the data do, where `Ü` may be one character or two."""
        spelled = {normalize("NFC", key): key for key in keys if not key.isascii()}
        for theirs in [*(self.fields if spelled else ())]:
            key = theirs if theirs in keys else spelled.get(normalize("NFC", theirs), theirs)
            self.fields[key] = self.fields.pop(theirs)

    def _make_layout(self, row: Mapping[Any, Any], *, exported: bool) -> _ColumnLayout:
        keys = tuple(row)
        for key in keys:
            if not isinstance(key, str):
                raise FieldError(None, f"has the field name {key!r}, which is not text")
        self._adopt_spelling(keys)
        export = None if exported else reader_for(frozenset(keys) - self.fields.keys())
        if export:
            return _ColumnLayout((), (), export=export)
        raters = self._raters(keys)
        of_raters = {key for group in raters.values() for key in group}
        claimed = self._claims([key for key in keys if key not in of_raters])
        claims, meta = claimed.fields, claimed.meta
        self.seen.update(key for key in keys if key in self.fields)
        # an answer may be at the end of messages
        if self._needs_output and claims.keys().isdisjoint(("output", "messages", "source")):
            raise _no_output(row)
        whole = tuple((key, target) for target, (_, key) in claims.items() if "." not in target)
        parts = tuple(
            (key, *target.split(".", 1)) for target, (_, key) in claims.items() if "." in target
        )
        # the rest of an object whose part has its name is left out
        kept = (k for k in meta if not (f"meta.{k}" in claims and self._has_mapped_parts(k)))
        in_meta = tuple((key, "meta", key) for key in kept)
        # commands read these from `meta`, so they are not in a notice
        used = {*IN_META, "raters", SAMPLING_PROBABILITY, *filter(names_rater, meta)}
        rank, output = claims.get("output", (0, ""))
        is_generic = rank > 0 and plain_name(output) in GENERIC
        return _ColumnLayout(
            whole,
            (*parts, *in_meta),  # type: ignore[arg-type]
            tuple(raters.items()),
            tuple(claimed.further),
            tuple(
                key for key, target in meta.items() if key not in used and target not in MATERIAL
            ),
            tuple((key, target) for key, target in meta.items() if target in MATERIAL),
            output if is_generic else "",
            bool(claimed.further)
            or not claims.keys().isdisjoint(("messages", "images", "tools", "tools_called")),
        )

    def fixed_columns(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the output and its system, equal for all raters of a text."""
        claims = self._claims(keys).fields
        return tuple(claims[field][1] for field in ("output", "system") if field in claims)

    def _claims(self, keys: Sequence[str]) -> _ColumnClaims:
        """Return the column of each field.

        If several columns mean one field, the clearest name wins, equally clear names are refused,
        and the others are kept in `meta`. All columns of passages are used.
        """
        claims: dict[str, tuple[int, str]] = {}
        further: list[tuple[str, str]] = []
        meta: dict[str, str] = {}
        for key in keys:
            target, rank = self._target(key)
            if target == "passages":
                target = "context"
            rival = claims.get(target)
            if target == "":
                meta[key] = ""
            elif target in JOINED and rival:
                further.append((key, target))
            elif not rival or rank < rival[0]:
                claims[target] = (rank, key)
                if rival:
                    meta[rival[1]] = target
            elif rank > rival[0] or not self._needs_output:
                meta[key] = target
            else:
                raise FieldError(
                    key,
                    f"means {target!r}, and so does {rival[1]!r}; choose one, such as"
                    f' fields={{"{key}": "{target}"}}',
                )
        # a text beside its summary is the source
        text = next((key for key in meta if plain_name(key) == "text"), "")
        if text and claims.keys().isdisjoint(("source", "messages")):
            del meta[text]
            claims["source"] = (meaning_of(text)[1], text)
        return _ColumnClaims(claims, further, meta)

    def _raters(self, keys: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the columns of single raters by aspect, `""` for missing ones."""
        by_aspect: dict[str, list[str]] = {}
        mapped: dict[str, list[str]] = {}
        for key in keys:
            field, _, rest = self.fields.get(key, key).partition(".")
            aspect, _, rater = rest.rpartition(".")
            if field == "annotators" and aspect and rater:
                by_aspect.setdefault(aspect, []).append(key)
            elif key in self.fields:
                mapped.setdefault(self.fields[key], []).append(key)
        all_mapped = list(self.fields.values())
        for ours, group in mapped.items():
            field, _, aspect = ours.partition(".")
            if field == "annotators" and aspect and all_mapped.count(ours) > 1:
                by_aspect.setdefault(aspect, []).extend(group)
        for aspect, group in by_aspect.items():
            self._columns.setdefault(aspect, {}).update(dict.fromkeys(group))
        return {
            aspect: tuple(key if key in group else "" for key in self._columns[aspect])
            for aspect, group in by_aspect.items()
        }

    def rater_names(self, aspect: str) -> tuple[str, ...]:
        """Return the names of the columns of an aspect's raters, in order of the raters."""
        prefix = f"annotators.{aspect}."
        named = ((key, self.fields.get(key, key)) for key in self._columns.get(aspect, {}))
        return tuple(
            ours.removeprefix(prefix) if ours.startswith(prefix) else key for key, ours in named
        )

    def _target(self, key: str) -> tuple[str, int]:
        """Return the field of a key, or `""`, and its rank: 0 for the map, 1 for its own name."""
        if key in self.fields:
            ours = self.fields[key]
            return (f"meta.{key}" if ours == "meta" else ours), 0
        if self._has_mapped_parts(key):
            return "", 0  # the rest of the object
        field, dot, part = key.partition(".")
        if dot and part and field in KEYED and field != "meta":
            return key, 1
        return meaning_of(key)

    def _has_mapped_parts(self, key: str) -> bool:
        return any(path.startswith(f"{key}.") for path in self._paths)


def _raters_as_columns(row: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a row with a column for each rater of an aspect whose ratings are an object."""
    named = {name: by for name, by in row["annotators"].items() if isinstance(by, Mapping)}
    if not named:
        return row
    _check_aspects_first(named, row)
    columns: dict[Any, Any] = {}
    for name, by_rater in named.items():
        for rater, rating in by_rater.items():
            column = f"annotators.{name}.{str(rater).replace('.', '_')}"
            if column in columns:
                raise FieldError(f"annotators.{name}", f"has a second rater {rater!r}; rename one")
            columns[column] = rating
    others = {name: by for name, by in row["annotators"].items() if name not in named}
    return {**row, "annotators": others, **columns}


def _check_aspects_first(named: Mapping[Any, Mapping[Any, Any]], row: Mapping[Any, Any]) -> None:
    """Refuse ratings by rater and aspect, whose raters would be read as aspects."""
    inner = {str(name): rater for rater, by_name in named.items() for name in by_name}
    means = row.get("human")
    rated = {*(means if isinstance(means, Mapping) else ())}
    rated |= {str(key).removeprefix("human.") for key in row if str(key).startswith("human.")}
    are_raters = all(map(_is_numbered_rater, named)) and not any(map(_is_numbered_rater, inner))
    are_rated = rated.isdisjoint(named) and not rated.isdisjoint(inner)
    if inner and (are_raters or are_rated):
        aspect, rater = next(iter(inner.items()))
        raise FieldError(
            f"annotators.{rater}",
            f"seems to be a rater, and {aspect!r} an aspect; aspects come first:"
            f' {{"{aspect}": {{"{rater}": ...}}}}, or a field annotators.ASPECT.RATER each',
        )


def _is_numbered_rater(name: Any) -> bool:
    plain = plain_name(str(name))
    word = plain.rstrip("0123456789")
    return word != plain and word in {"", "r", "a", *map(plain_name, RATERS)}


def _take_out(row: Mapping[Any, Any], paths: Iterable[str]) -> Mapping[Any, Any]:
    """Return a row with columns for the mapped parts of objects, such as `inputs.question`."""
    for path in paths:
        if path not in row:
            row, parts = _split_off(row, path)
            if parts:
                row = {**row, path: parts[0]}
    return row


def _split_off(value: Any, path: str) -> tuple[Any, list[Any]]:
    """Return an object without the part at a path, and the part, if it exists.

    Lists are not changed.
    """
    name, _, rest = path.partition(".")
    if isinstance(value, str):  # tables hold objects as text
        value = objects_in_cell(value)
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        item = value[int(name)]
        return value, _split_off(item, rest)[1] if rest else [item]
    if not isinstance(value, Mapping) or name not in value:
        return value, []
    remaining, parts = _split_off(value[name], rest) if rest else (None, [value[name]])
    others = {key: item for key, item in value.items() if key != name}
    return {**others, name: remaining} if remaining else others, parts


def _unclear_output(generic: str, other: str) -> FieldError:
    field = "source" if plain_name(generic) == "text" else "references"
    return FieldError(
        generic,
        f"may be the output, and so may {other!r}; say which is judged:"
        f' fields={{"{generic}": "output", "{other}": "context"}}, or'
        f' fields={{"{other}": "output", "{generic}": "{field}"}} ("meta" for what no judge should'
        " see)",
    )


def _no_output(row: Mapping[str, Any]) -> FieldError:
    names: list[str] = []
    for name, value in row.items():
        names += [f"{name}.{part}" for part in value] if isinstance(value, Mapping) else [name]
    listing = ", ".join(names[:12]) or "none"
    return FieldError(
        "output",
        f"is missing; fields: {listing}; rename one to 'output', or map it: "
        'fields={"NAME": "output"}',
    )


def _add_parts(fields: dict[str, Any], layout: _ColumnLayout, row: Mapping[str, Any]) -> None:
    """Add the cells that are entries of a field, such as `human.fluency`."""
    entries = [(key, name, part, row[key]) for key, name, part in layout.parts]
    for aspect, columns in layout.raters:
        ratings = tuple(row[key] if key else None for key in columns)
        if any(rating is not None for rating in ratings):
            entries.append((f"annotators.{aspect}", "annotators", aspect, ratings))
    ours: dict[str, dict[str, Any]] = {}
    for key, name, part, value in entries:
        # a null in a column of ratings is a missing rating; in `meta` it is kept
        if value is None and name != "meta":
            continue
        if name not in ours:  # a copy is changed, as the row is the caller's
            present = fields.get(name, {})
            if not isinstance(present, Mapping):
                raise FieldError(name, f"is {_kind(present)}, not an object with names and values")
            fields[name] = ours[name] = dict(present)
        # `human: {"fluency": 4}` beside a column `human.fluency`: neither can be preferred in
        # silence.
        if part in ours[name]:
            raise FieldError(key, f"is in {name!r} as well; keep one of the two")
        ours[name][part] = value


def with_means(example: Example, labels: LabelReader) -> Example:
    """Return the example with its annotators' mean for each aspect without a human rating.

    For labels without an order, it is the most frequent label.
    """
    if not example.annotators:
        return example
    voted = labels.voted
    means = {
        aspect: majority(numbers) if aspect in voted else math.fsum(numbers) / len(numbers)
        for aspect, ratings in example.annotators.items()
        if example.human.get(aspect) is None and (numbers := [r for r in ratings if r is not None])
    }
    return example.model_copy(update={"human": {**example.human, **means}}) if means else example


def _check_copy(example: Example) -> Example:
    """Return an example with plain texts and numbers: copies of examples were never validated."""
    values = vars(example)
    checked = ("id", "output", "source", "context", "system", "group", "references", *KEYED)
    try:
        for name in KEYED:  # has a better message about NaN than pydantic's
            to_json_value(values[name])
        validated = vars(Example.model_validate({name: values[name] for name in checked}))
        for name in checked:
            to_json_value(validated[name])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise FieldError(where, _problem(first["type"], first["input"], first["msg"])) from None
    except ValueError as error:
        raise FieldError(name, str(error)) from None
    if values["id"] is None:
        raise FieldError("id", "should be text, not None")
    return example.model_copy(update={name: validated[name] for name in ("references", *KEYED)})


def _validate(fields: dict[str, Any], layout: _ColumnLayout, labels: LabelReader) -> Example:
    _convert(fields, labels)
    if "output" not in fields:
        raise FieldError(
            _key_of("output", layout),
            "is missing; an example needs an output, which may be empty text",
        )
    if "id" not in fields:
        fields["id"] = content_id(fields)
    # An empty text is like an empty cell: rows with it do not share a source.
    for name in ("system", "group"):
        value = fields.get(name)
        if type(value) is str and not value.strip():
            del fields[name]
    try:
        return Example(**fields)
    except ValidationError as error:
        raise _field_error(error, layout) from None


def _convert(fields: dict[str, Any], labels: LabelReader) -> None:
    """Convert a row's names, ratings and references, in place, to the types of an example."""
    for name in ("id", "system", "group"):
        value = fields.get(name)
        # Data frames turn a column of whole ids with a gap into floats: 7.0 is the id "7".
        if type(value) is int or (type(value) is float and value.is_integer()):
            fields[name] = str(int(value))
    for name in ("annotators", "metrics", "human"):
        values = fields.get(name)
        if isinstance(values, dict):
            if name == "human" and isinstance(single := fields.get("annotators"), dict):
                values = _without_means(values, single, labels)
            fields[name] = labels.numbers(name, values)
    references = fields.get("references")
    if type(references) in (str, int):
        fields["references"] = (str(references),)
    elif isinstance(references, list):
        fields["references"] = tuple(str(r) if type(r) is int else r for r in references)


def _field_error(error: ValidationError, layout: _ColumnLayout) -> FieldError:
    """Return the error on the first field that is wrong, with a way to repair it."""
    first = error.errors(include_url=False)[0]
    name, *inside = map(str, first["loc"])
    key = _key_of(name, layout, inside)
    path = ".".join([key, *inside])
    problem = _problem(first["type"], first["input"], first["msg"])
    given = first["input"]
    several = given.values() if isinstance(given, Mapping) else given
    if (
        name == "human"
        and isinstance(given, Mapping | list)
        and not any(isinstance(rating, str) for rating in several)
    ):
        aspect = inside[0] if inside else "ASPECT"
        problem += (
            f"; the ratings of several people are a list in annotators.{aspect}, or one column"
            f" annotators.{aspect}.RATER each"
        )
    elif name in ("human", "annotators", "metrics") and isinstance(given, str | list):
        problem += "; a task names the labels of an aspect"
    elif name == "annotators" and first["type"] == "tuple_type":
        problem += "; the column of one rater is annotators.ASPECT.RATER"
    elif first["type"] == "dict_type":
        problem += how_to_name(path, name)
    elif name == "references" and (inside or not isinstance(given, Mapping)):
        problem += f'; if they are passages, map them: fields={{"{key}": "context"}}'
    elif isinstance(given, Mapping | list) and given:
        inner = "0" if isinstance(given, list) else next(iter(given))
        field = ".".join([name, *inside])
        problem += f'; map a part of it, such as fields={{"{path}.{inner}": "{field}"}}'
    return FieldError(path, problem, column=key)


def _without_means(human: dict[str, Any], single: Any, labels: LabelReader) -> dict[str, Any]:
    """Return ratings without means of numerals, which `with_means` recomputes from positions."""
    return {
        name: mean
        for name, mean in human.items()
        if not labels.has_numerals(name) or not any(r is not None for r in single.get(name, ()))
    }


def _key_of(name: str, layout: _ColumnLayout, inside: list[str] | None = None) -> str:
    """Return the row's own name for a field; `inside` loses the part that is in a column's name."""
    for key, ours in layout.whole:
        if ours == name:
            return key
    for key, ours, part in layout.parts:
        if inside and (ours, part) == (name, inside[0]):
            inside.pop(0)
            return key
    return name


def _problem(kind: str, value: Any, reason: str) -> str:
    if kind == "string_too_short":
        return "should not be empty (leave it out if there is none)"
    expected = {
        "string_type": "should be text",
        "float_type": "should be a number",
        "finite_number": "should be a finite number (null if it is missing)",
        "dict_type": "should be an object with names and values",
        "tuple_type": "should be a list",
    }.get(kind, reason)
    is_mark = kind == "float_type" and isinstance(value, str)
    return f"{expected}, not {short_repr(value)}{advice(value) if is_mark else ''}"


def _kind(value: Any) -> str:
    names = {
        list: "a list", str: "text", int: "a number", float: "a number", bool: "a boolean",
        type(None): "null",
    }  # fmt: skip
    return names.get(type(value), f"{type(value).__name__}")
