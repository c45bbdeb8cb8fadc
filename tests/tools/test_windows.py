"""Windows: everything is in one, each fits."""

from hypothesis import given
from hypothesis import strategies as st

from textassay.tools.windows import fit, pack


def count(text):
    """Two characters make a token, and a space ends one."""
    return sum((len(word) + 1) // 2 for word in text.split())


SENTENCES = st.lists(st.text(alphabet="abc ", min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=12)


@given(SENTENCES, st.integers(1, 30), st.integers(0, 3))
def test_every_window_fits_and_no_character_is_lost(sentences, limit, overlap):
    """Whatever the lengths."""
    windows = pack(sentences, count, limit, overlap=overlap)
    assert all(count(window) <= limit for window in windows)
    whole = "".join("".join(sentences).split())
    seen = ["".join(window.split()) for window in windows]
    if overlap == 0:
        assert "".join(seen) == whole
    assert all(part in "".join(whole.split()) for part in seen)
    at = 0
    for part in seen:  # they follow each other without a gap
        start = whole.find(part, max(0, at - sum(map(len, sentences))))
        assert 0 <= start <= at
        at = max(at, start + len(part))
    assert at == len(whole) or overlap


@given(SENTENCES, st.integers(1, 30))
def test_cutting_keeps_order_and_content(sentences, limit):
    """Long sentences become several pieces, short ones stay."""
    pieces = fit(sentences, count, limit)
    assert "".join("".join(pieces).split()) == "".join("".join(sentences).split())
    assert all(s in pieces for s in sentences if count(s) <= limit)


def test_windows_overlap_by_whole_sentences():
    """The last sentence of a window opens the next."""
    assert pack(["aa aa", "bb bb", "cc cc"], count, 4, overlap=1) == ["aa aa bb bb", "bb bb cc cc"]


def test_an_overlap_that_would_leave_no_room_is_dropped():
    """Every window brings something new."""
    assert pack(["aa aa aa", "bb bb aa"], count, 4, overlap=1) == ["aa aa aa", "bb bb aa"]
