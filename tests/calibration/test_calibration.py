"""A calibration folder from somebody else, whose digest is right: what no fit makes is refused."""

import copy

import numpy as np
import pytest

from tests.calibration.columns import SCALES, columns_of
from textassay.calibration.calibration import FILE, FORMAT, calibrate, load
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.storage.files import write_sealed


def content_of(method):
    """A calibration of a judge from 1 to 5, as it is written."""
    n = 120
    scores = np.arange(n) % 5 + 1.0
    ratings = np.clip(scores + np.arange(n) % 3 - 1, 1, 5)
    columns = columns_of(scores, ratings, np.arange(n))
    made, _ = calibrate(columns, scales=SCALES, method=method)
    return made.to_dict()


CONTENT = {kind: content_of(kind) for kind in ("isotonic", "linear", "shift", "ordinal")}


def write(folder, aspect):
    write_sealed(folder / FILE, {"aspects": [aspect], "sources": []}, format=FORMAT)
    return folder


@pytest.mark.parametrize("kind", CONTENT)
def test_what_was_learned_is_read(tmp_path, kind):
    """Every kind of map."""
    [aspect] = load(write(tmp_path, CONTENT[kind])).aspects
    assert aspect.to_dict() == CONTENT[kind]


@pytest.mark.parametrize(
    ("kind", "path", "change"),
    [
        ("isotonic", "map.ratings", lambda old: [*old[:-1], 1e308]),
        ("isotonic", "map.ratings", lambda old: [100 * one for one in old]),
        ("isotonic", "map.ratings", lambda old: old[:-1]),
        ("isotonic", "map.ratings", lambda old: [old[1], old[0], *old[2:]]),
        ("isotonic", "map.ratings", lambda old: []),
        ("isotonic", "map.scores", lambda old: old[::-1]),
        ("isotonic", "map.scores", lambda old: "1 2 3"),
        ("linear", "map.high", lambda old: 1e308),
        ("linear", "map.low", lambda old: 6),
        ("linear", "map.slope", lambda old: None),
        ("ordinal", "map.grid", lambda old: old[::-1]),
        ("ordinal", "map.grid", lambda old: [*old[:-1], 400]),
        ("ordinal", "map.thresholds", lambda old: old[:-1]),
        ("ordinal", "map.thresholds", lambda old: old[::-1]),
        ("isotonic", "coverage", lambda old: -5),
        ("isotonic", "coverage", lambda old: True),
        ("isotonic", "grid", lambda old: {"low": 5.0, "high": 1.0, "steps": 1}),
        ("isotonic", "grid.steps", lambda old: -1),
        ("isotonic", "intervals.below", lambda old: [-one for one in np.add(old, 1).tolist()]),
        ("isotonic", "intervals.above", lambda old: old[:-1]),
        ("isotonic", "intervals.edges", lambda old: old[::-1]),
        ("isotonic", "scale.raters", lambda old: [5, 1]),
        ("isotonic", "scale.judge", lambda old: [1, 1]),
        ("isotonic", "range", lambda old: [5, 1]),
    ],
)
def test_what_no_fit_makes_is_refused(tmp_path, kind, path, change):
    """It would give ratings off the scale, intervals that are none, or a traceback."""
    aspect = copy.deepcopy(CONTENT[kind])
    *way, last = path.split(".")
    at = aspect
    for name in way:
        at = at[name]
    at[last] = change(at[last])
    with pytest.raises(DataError, match=r"a calibration( map)? is damaged"):
        load(write(tmp_path, aspect))


@pytest.mark.parametrize("text", ["NaN", "1e400", "[" * 900 + "]" * 900, "[" * 5000 + "]" * 5000])
def test_json_of_other_programs_is_refused(tmp_path, text):
    """NaN and Infinity are not JSON, and Python writes nothing that is nested so deeply."""
    (tmp_path / FILE).write_text(f'{{"format": {FORMAT}, "aspects": [{text}], "digest": "0"}}')
    with pytest.raises(ConfigurationError, match=r"cannot be read|was edited"):
        load(tmp_path)
