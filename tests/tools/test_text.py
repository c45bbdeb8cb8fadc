"""Words, sentences and windows of texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.tools import RuleSplitter
from textassay.tools.text import pack_sentences, split_long

CASES = {
    "Hello world. This is it.": ["Hello world.", "This is it."],
    "Dr. Smith went to Washington. He met Mr. Jones.": [
        "Dr. Smith went to Washington.",
        "He met Mr. Jones.",
    ],
    "The U.S. economy grew. It was good.": ["The U.S. economy grew.", "It was good."],
    "He lives in the U.S. He likes it.": ["He lives in the U.S.", "He likes it."],
    "See Fig. 2.1 for details. Then go on.": ["See Fig. 2.1 for details.", "Then go on."],
    '"Stop!" he said. "Why?" she asked.': ['"Stop!" he said.', '"Why?" she asked.'],
    "Prices rose 3.5 percent. Costs fell.": ["Prices rose 3.5 percent.", "Costs fell."],
    "J. K. Rowling wrote it. She is rich.": ["J. K. Rowling wrote it.", "She is rich."],
    "Is it? Yes! No.": ["Is it?", "Yes!", "No."],
    "1. First item\n2. Second item": ["1. First item", "2. Second item"],
    "- one\n- two\n": ["- one", "- two"],
    "他来了。她走了！真的吗？": ["他来了。", "她走了！", "真的吗？"],
    "नमस्ते। आप कैसे हैं?": ["नमस्ते।", "आप कैसे हैं?"],
    "a draw on sunday . he was brought on": ["a draw on sunday .", "he was brought on"],
    "mr . smith left . he was": ["mr . smith left .", "he was"],
    "`` he left . '' she stayed .": ["`` he left . ''", "she stayed ."],
    "He said (see above.) Then left.": ["He said (see above.)", "Then left."],
    "The meeting is at 5 p.m. on Friday. Bring e.g. a pen.": [
        "The meeting is at 5 p.m. on Friday.",
        "Bring e.g. a pen.",
    ],
    "He works at Acme Inc. The firm is big.": ["He works at Acme Inc.", "The firm is big."],
    "So I went home [...] and slept. Then I woke.": [
        "So I went home [...] and slept.",
        "Then I woke.",
    ],
    "This line is wrapped by an editor at some\nwidth. Next one.": [
        "This line is wrapped by an editor at some\nwidth.",
        "Next one.",
    ],
    "i 'm reading \n i do n't think so \n yeah": ["i 'm reading", "i do n't think so", "yeah"],
    "Title\n\nText here.": ["Title", "Text here."],
    "No. That is wrong.": ["No.", "That is wrong."],
    "See No. 5 there.": ["See No. 5 there."],
    "...": ["..."],
    "": [],
    " \n ": [],
}
SENTENCES = st.lists(
    st.text(alphabet="abc ", min_size=1, max_size=40).filter(str.strip), min_size=1, max_size=12
)


@pytest.mark.parametrize("text", CASES)
def test_known_texts_are_cut_where_a_reader_would(text):
    assert RuleSplitter().split(text) == CASES[text]


@given(
    st.text(alphabet=st.sampled_from("ab A.!?\n\"')([]。 1-"), max_size=80) | st.text(max_size=200)
)
def test_nothing_but_white_space_is_lost(text):
    sentences = RuleSplitter().split(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(s == s.strip() != "" for s in sentences)


@pytest.mark.parametrize(
    "unit", ["1. a 2. b ", "a.", "\n", "(", "A. ", "... ", "\" ' ", "x" * 50 + " "]
)
def test_time_is_linear_in_the_text(unit):
    assert grows_linearly(RuleSplitter().split, unit, 4_000)


def count(text):
    """Two characters make a token, and a space ends one."""
    return sum((len(word) + 1) // 2 for word in text.split())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 3))
def test_every_word_is_in_a_window_and_every_window_fits(lengths, limit, overlap):
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
    pieces = split_long(sentences, count, limit)
    assert "".join("".join(pieces).split()) == "".join("".join(sentences).split())
    assert all(s in pieces for s in sentences if count(s) <= limit)


def test_windows_overlap_by_whole_sentences():
    """An overlap that would leave no room is dropped: every window brings something new."""
    windows = ["aa aa bb bb", "bb bb cc cc"]
    assert pack_sentences(["aa aa", "bb bb", "cc cc"], count, 4, overlap=1) == windows
    assert pack_sentences(["aa aa aa", "bb bb aa"], count, 4, overlap=1) == ["aa aa aa", "bb bb aa"]
