"""When a provider that fails is given up, and what is said meanwhile."""

from __future__ import annotations

import pytest

from textassay.runtime.batches.outage import FIRST_ANSWER, Outage
from textassay.runtime.errors import NothingListening, ServerFailed


@pytest.mark.parametrize(
    ("error", "has_answered", "longest"),
    [
        (NothingListening("refused"), False, FIRST_ANSWER),
        (NothingListening("refused"), True, 300.0),
        (ServerFailed("503"), False, 300.0),
    ],
)
def test_an_address_where_nobody_has_answered_is_given_up_sooner(error, has_answered, longest):
    outage = Outage("direct/m", 300.0)
    if has_answered:
        outage.answered()
    assert not outage.is_too_long(longest, error)
    assert outage.is_too_long(longest + 0.1, error)


def test_an_outage_is_reported_once_and_so_is_its_end(caplog):
    outage = Outage("direct/m", 300.0)
    outage.answered()
    for seconds in (0.0, 1.0, 2.0):
        assert not outage.is_too_long(seconds, ServerFailed("503"))
    assert caplog.messages == [
        "the batch API of direct/m fails with ServerFailed; it is tried again for 300 s"
    ]
    outage.answered()
    outage.answered()
    assert caplog.messages[1:] == ["the batch API of direct/m answers again"]
