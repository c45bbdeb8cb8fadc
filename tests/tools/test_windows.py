"""Windows: everything is in one, each fits."""

from hypothesis import given
from hypothesis import strategies as st

from textassay.tools.windows import pack_sentences, split_long


def count(text):
    """Two characters make a token, and a space ends one."""
    return sum((len(word) + 1) // 2 for word in text.split())


SENTENCES = st.lists(
    st.text(alphabet="abc ", min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=12
)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 3))
def test_every_word_is_in_a_window_and_every_window_fits(lengths, limit, overlap):
    """Windows are runs of words that follow each other without a gap."""
    numbers = iter(range(1000))
    sentences = [" ".join(str(next(numbers)) for _ in range(length)) for length in lengths]
    windows = [
        w.split()
        for w in pack_sentences(sentences, lambda text: len(text.split()), limit, overlap=overlap)
    ]
    assert all(len(window) <= limit for window in windows)
    reached = 0
    for window in windows:
        first, last = int(window[0]), int(window[-1])
        assert window == [str(i) for i in range(first, last + 1)]
        assert first <= reached <= last
        reached = last + 1
    assert reached == sum(lengths)


@given(SENTENCES, st.integers(1, 30))
def test_cutting_keeps_order_and_content(sentences, limit):
    """Long sentences become several pieces, short ones stay."""
    pieces = split_long(sentences, count, limit)
    assert "".join("".join(pieces).split()) == "".join("".join(sentences).split())
    assert all(s in pieces for s in sentences if count(s) <= limit)


def test_windows_overlap_by_whole_sentences():
    """The last sentence of a window opens the next."""
    assert pack_sentences(["aa aa", "bb bb", "cc cc"], count, 4, overlap=1) == [
        "aa aa bb bb",
        "bb bb cc cc",
    ]


def test_an_overlap_that_would_leave_no_room_is_dropped():
    """Every window brings something new."""
    assert pack_sentences(["aa aa aa", "bb bb aa"], count, 4, overlap=1) == ["aa aa aa", "bb bb aa"]
