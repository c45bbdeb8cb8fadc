"""What `compare` says beside a difference."""

import pytest

from textassay.calibration.compare_runs import CompareRow, comparison_tables
from textassay.calibration.intervals import Estimate


@pytest.mark.parametrize(
    ("p", "groups", "warned"),
    [(0.03, 12, True), (0.03, 40, False), (0.01, 12, False), (0.2, 12, False)],
)
def test_a_doubtful_p_value_of_few_sources_is_warned_of(p, groups, warned):
    """A tail that few sources do not show raises false alarms just below .05."""
    row = CompareRow(
        aspect="fluency", n=groups, groups=groups, a=4.0, b=3.5,
        difference=Estimate(0.5, 0.1, 0.9), p=p, p_holm=p, wins=9, ties=0, losses=3, unscored=0,
        signatures=("s", "s"), scales=(None, None),
    )  # fmt: skip
    [table] = comparison_tables([row])
    doubts = [note for note in table.notes if "cannot show" in note.text]
    assert [note.warning for note in doubts] == [True] * warned
