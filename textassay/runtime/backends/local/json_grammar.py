"""JSON schema to GBNF, and the grammar that llama.cpp makes of it.

Keywords that the grammar cannot enforce are refused by name rather than dropped: every answer
satisfies the whole schema. Objects are written with their properties in the schema's order.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.llamacpp_library import (
    Weights,
    forget_log,
    library,
    recent_log,
)
from textassay.runtime.errors import ConfigurationError

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_MAX_REPEATS = 1000
"""llama.cpp (in llama-cpp-python 0.3.36) counts up to 2,000 repetitions and ignores larger bounds.
A step takes the same 0.5 ms with a quarter."""
_MAX_INTEGERS = 2000
"""Integers are enumerated: a step takes 6 ms with 500 of them, 24 ms with 2,000 and 92 ms with
8,000."""
_MAX_DEPTH = 64
"""Nesting is a recursion, which Python ends before 256 levels; a step takes the same with 16."""
_PRIMITIVES = {
    # One space at most: if white space is unlimited, small models keep writing it until they
    # run out of tokens.
    "ws": "[ ]?",
    "boolean": '("true" | "false")',
    "null": '"null"',
    # At most sixteen digits: parsers that read numbers as doubles round longer ones.
    "integer": '"-"? ("0" | [1-9] [0-9]{0,15})',
    "number": '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?',
    # Unicode scalar values by name: a complement would allow bytes that are not UTF-8, and each of
    # them becomes a character of its own, beyond a string's maxLength.
    "char": (
        r"[\x20-\x21\x23-\x5b\x5d-\x7e\u0080-\uD7FF\uE000-\U0010FFFF] | "
        r'"\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})'
    ),
    "string": r'"\"" char* "\""',
    "array": '"[" ws (value ("," ws value)*)? ws "]"',
    "object": '"{" ws (string ws ":" ws value ("," ws string ws ":" ws value)*)? ws "}"',
    "value": "object | array | string | number | boolean | null",
}


class JsonGrammar:
    """A GBNF grammar and how far a text has come in it."""

    def __init__(self, weights: Weights, gbnf: str) -> None:
        self._lib = library()
        forget_log()
        self._handle = self._lib.llama_sampler_init_grammar(
            weights.vocabulary, gbnf.encode(), b"root"
        )
        # Without this check, a refused grammar crashes the process when it is used.
        if not self._handle:
            raise ConfigurationError(
                f"llama.cpp does not accept the grammar: {recent_log() or 'it gives no reason'}"
            )
        self._all = np.zeros(weights.size, _CANDIDATE)
        self._all["id"] = np.arange(weights.size)

    def allows(self, token: int) -> bool:
        """Return whether `token` may come next."""
        candidate = np.zeros(1, _CANDIDATE)
        candidate["id"] = token
        return bool(np.isfinite(self._apply(candidate)[0]))

    def allowed_tokens(self) -> NDArray[np.bool_]:
        """Return for every token whether it may come next."""
        self._all["logit"] = 0.0
        return np.isfinite(self._apply(self._all))

    def _apply(self, candidates: NDArray[Any]) -> NDArray[np.float32]:
        array = self._lib.llama_token_data_array(
            data=candidates.ctypes.data_as(self._lib.llama_token_data_p),
            size=len(candidates),
            selected=-1,
            sorted=False,
        )
        self._lib.llama_sampler_apply(self._handle, ctypes.byref(array))
        return np.asarray(candidates["logit"])

    def accept(self, token: int) -> None:
        """Advance by `token`, which must be allowed: llama.cpp ends the process otherwise."""
        self._lib.llama_sampler_accept(self._handle, token)

    def close(self) -> None:
        """Free it; safe to call twice."""
        if self._handle:
            self._lib.llama_sampler_free(self._handle)
            self._handle = None


class _Unusable(Exception):
    """A part of the schema cannot be enforced; becomes a `ConfigurationError`."""


def json_grammar(schema: Mapping[str, Any]) -> str:
    """Return a GBNF grammar of exactly the JSON values that satisfy `schema`, up to white space.

    Known are `type`, `enum`, `const`, `anyOf`, `oneOf`, local `$ref`, `properties`, `required`,
    `additionalProperties`, `items`, `minItems`, `maxItems`, `minLength`, `maxLength`, and bounds on
    integers (both) and numbers (both, whole and not negative).
    """
    writer = _GrammarWriter(schema)
    try:
        writer.rule("root", writer.visit(schema, "#", 0))
    except _Unusable as error:
        raise ConfigurationError(f"a grammar cannot enforce the JSON schema: {error}") from error
    return "\n".join(f"{name} ::= {body}" for name, body in writer.rules.items())


class _GrammarWriter:
    """Collects rules; each `visit` returns an expression."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.rules: dict[str, str] = {}
        self._schema = schema
        self._refs: dict[str, str] = {}

    def rule(self, name: str, body: str) -> str:
        """Add a rule and return its name."""
        self.rules[name] = body
        return name

    def visit(self, schema: object, place: str, depth: int) -> str:
        """Return the expression for the schema at `place`."""
        if schema is True:
            return self.primitive("value")
        if not isinstance(schema, Mapping):
            raise _Unusable(f"{place} is {json.dumps(schema, default=str)[:60]}, not a schema")
        if depth > _MAX_DEPTH:
            raise _Unusable(f"{place} is nested more than {_MAX_DEPTH} deep")
        notes = {"title", "description", "default", "examples", "deprecated", "readOnly"}
        notes |= {"writeOnly", "$schema", "$id", "$comment", "$defs", "definitions"}
        keys = set(schema) - notes
        if "$ref" in keys:
            self._only(keys, {"$ref"}, place)
            return self._reference(schema["$ref"], place, depth)
        if "const" in keys:
            self._only(keys, {"const", "type"}, place)
            return _literal(schema["const"], place)
        if "enum" in keys:
            self._only(keys, {"enum", "type"}, place)
            return self._any(
                _literal(value, place) for value in self._list(schema["enum"], f"{place}/enum")
            )
        for word in ("anyOf", "oneOf"):
            if word in keys:
                self._only(keys, {word}, place)
                options = self._list(schema[word], f"{place}/{word}")
                return self._any(
                    self.visit(o, f"{place}/{word}/{i}", depth + 1) for i, o in enumerate(options)
                )
        return self._write_typed(schema, keys, place, depth)

    def _write_typed(
        self, schema: Mapping[str, Any], keys: set[str], place: str, depth: int
    ) -> str:
        implied = "object" if "properties" in keys else "array" if "items" in keys else "value"
        kind = schema.get("type", implied)
        if isinstance(kind, list):
            self._only(keys, {"type"}, place)
            return self._any(
                self.visit({"type": type_name}, place, depth + 1)
                for type_name in self._list(kind, f"{place}/type")
            )
        if kind == "object":
            return self._object(schema, keys, place, depth)
        if kind == "array":
            return self._array(schema, keys, place, depth)
        if kind == "string":
            return self._string(schema, keys, place)
        if kind in ("integer", "number"):
            return self._write_bounded(schema, keys, kind, place)
        if kind not in ("boolean", "null", "value"):
            raise _Unusable(
                f"{place}/type is {json.dumps(kind, default=str)[:60]}, which is not a JSON type"
            )
        self._only(keys, {"type"}, place)
        return self.primitive(kind)

    def _object(self, schema: Mapping[str, Any], keys: set[str], place: str, depth: int) -> str:
        self._only(keys, {"type", "properties", "required", "additionalProperties"}, place)
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, Mapping):
            raise _Unusable(f"{place}/properties is not an object")
        if (
            not isinstance(required, Sequence)
            or isinstance(required, str)
            or set(required) - set(properties)
        ):
            raise _Unusable(f"{place}/required must list names of its properties")
        if not properties:
            if schema.get("additionalProperties", True) is False:
                return r'"{" ws "}"' if self.primitive("ws") else ""
            return self.primitive("object")
        self.primitive("ws")
        pairs = []
        for name, sub in properties.items():
            value = self._rule_name(sub, f"{place}/properties/{name}", depth + 1)
            pairs.append((f'{_literal(name, place)} ws ":" ws {value}', name in required))
        return f'"{{" ws {self._pairs(pairs)} ws "}}"'

    def _pairs(self, pairs: list[tuple[str, bool]]) -> str:
        """Return the rule of all properties in order, with commas; optional ones may be absent."""
        names = [self.rule(f"pair{len(self.rules)}x{i}", body) for i, (body, _) in enumerate(pairs)]
        following = ""  # the rule after a property, built from the last to the first
        starts: list[str] = []
        for name, (_, needed) in zip(reversed(names), reversed(pairs), strict=True):
            starts = [f"{name} {following}", *([] if needed else starts)]
            after = f'"," ws {name} {following}'
            skip = following or '""'
            following = self.rule(
                f"after{len(self.rules)}", after if needed else f"({after}) | {skip}"
            )
        body = " | ".join(starts)
        return f"({body})" if any(needed for _, needed in pairs) else f"({body})?"

    def _array(self, schema: Mapping[str, Any], keys: set[str], place: str, depth: int) -> str:
        self._only(keys, {"type", "items", "minItems", "maxItems"}, place)
        least, most = self._range(schema, "minItems", "maxItems", place)
        item = self._rule_name(schema.get("items", True), f"{place}/items", depth + 1)
        self.primitive("ws")
        if most == 0:
            return '"[" ws "]"'
        more = f'("," ws {item}){{{max(least - 1, 0)},{most and most - 1}}}'
        return f'"[" ws {item} {more} ws "]"' if least else f'"[" ws ({item} {more})? ws "]"'

    def _string(self, schema: Mapping[str, Any], keys: set[str], place: str) -> str:
        self._only(keys, {"type", "minLength", "maxLength"}, place)
        least, most = self._range(schema, "minLength", "maxLength", place)
        self.primitive("string")
        if not least and most == "":
            return "string"
        return rf'"\"" char{{{least},{most}}} "\""'

    def _write_bounded(
        self, schema: Mapping[str, Any], keys: set[str], kind: str, place: str
    ) -> str:
        bounds = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
        self._only(keys, {"type", *bounds}, place)
        if not keys & bounds:
            return self.primitive(kind)
        for word in keys & bounds:
            if isinstance(schema[word], bool) or not isinstance(schema[word], int | float):
                raise _Unusable(f"{place}/{word} is not a number")
        if kind == "integer":
            return self._integers(schema, place)
        low, high = schema.get("minimum", -1), schema.get("maximum", -1)
        is_whole = low >= 0 and high >= 0 and not (low % 1 or high % 1)
        if keys & {"exclusiveMinimum", "exclusiveMaximum"} or not is_whole:
            raise _Unusable(
                f"{place}: a number needs both minimum and maximum, whole and not negative, or "
                "neither"
            )
        self._check_count(int(low), int(high), place)
        whole = self._any(f'"{value}"' for value in range(int(low), int(high)))
        end = f'"{int(high)}" ("." "0"{{1,6}})?'
        return f'({whole} ("." [0-9]{{1,6}})? | {end})' if high > low else f"({end})"

    def _integers(self, schema: Mapping[str, Any], place: str) -> str:
        lows = [math.ceil(schema["minimum"])] if "minimum" in schema else []
        lows += [math.floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
        highs = [math.floor(schema["maximum"])] if "maximum" in schema else []
        highs += [math.ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
        if not lows or not highs:
            raise _Unusable(f"{place}: an integer needs a lower and an upper bound, or none")
        self._check_count(max(lows), min(highs), place)
        return self._any(f'"{value}"' for value in range(max(lows), min(highs) + 1))

    @staticmethod
    def _check_count(low: int, high: int, place: str) -> None:
        if high < low:
            raise _Unusable(f"{place}: no number lies between its bounds")
        if high - low >= _MAX_INTEGERS:
            raise _Unusable(f"{place}: bounds may be at most {_MAX_INTEGERS} apart")

    def _reference(self, ref: object, place: str, depth: int) -> str:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise _Unusable(
                f"{place}/$ref is {ref!r}: only references into the same schema are followed"
            )
        if ref not in self._refs:
            target: Any = self._schema
            for step in ref[1:].split("/")[1:]:
                step = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(target, Mapping) or step not in target:
                    raise _Unusable(f"{place}/$ref is {ref!r}, which does not exist")
                target = target[step]
            if isinstance(target, Mapping) and "$ref" in target:
                raise _Unusable(f"{place}/$ref is {ref!r}, which is a reference itself")
            name = self._refs[ref] = f"ref{len(self._refs)}"
            # The name is taken before its target is visited, so that a schema may refer to itself.
            self.rules[name] = ""
            self.rule(name, self.visit(target, ref, depth + 1))
        return self._refs[ref]

    def _rule_name(self, schema: object, place: str, depth: int) -> str:
        """Return a rule's name for a schema, so that it can be repeated."""
        body = self.visit(schema, place, depth)
        return self.rule(f"part{len(self.rules)}", body)

    def primitive(self, name: str) -> str:
        """Add a built-in rule and the rules that it names; return its name."""
        if name not in self.rules:
            self.rules[name] = _PRIMITIVES[name]
            for word in re.findall(r"[a-z]+", _PRIMITIVES[name]):
                if word in _PRIMITIVES:
                    self.primitive(word)
        return name

    @staticmethod
    def _any(options: Any) -> str:
        return "(" + " | ".join(options) + ")"

    @staticmethod
    def _list(value: object, place: str) -> list[Any]:
        if not isinstance(value, list | tuple) or not value:
            raise _Unusable(f"{place} is not a list with at least one entry")
        return list(value)

    @staticmethod
    def _only(keys: set[str], known: set[str], place: str) -> None:
        if foreign := sorted(map(str, keys - known)):
            raise _Unusable(
                f"{place} has {', '.join(foreign)}, which {'is' if len(foreign) == 1 else 'are'}"
                " not supported there"
            )

    @staticmethod
    def _range(
        schema: Mapping[str, Any], low: str, high: str, place: str
    ) -> tuple[int, int | Literal[""]]:
        """Return both bounds of a repetition as a grammar writes them; no upper one is empty."""
        for word in (low, high):
            value = schema.get(word, 0)
            if type(value) is not int or not 0 <= value <= _MAX_REPEATS:
                raise _Unusable(f"{place}/{word} must be a whole number from 0 to {_MAX_REPEATS}")
        least, most = schema.get(low, 0), schema.get(high, "")
        if most != "" and most < least:
            raise _Unusable(f"{place}/{high} is below {low}")
        return least, most


def _literal(value: object, place: str) -> str:
    try:
        # ASCII escapes are one spelling of several; to accept all would need a rule per letter.
        text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _Unusable(f"{place} is {value!r}, which is not a JSON value") from error
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
