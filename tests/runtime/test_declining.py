import pytest

from textassay.runtime.declining import declines


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with rating this",
        "I'm sorry, but I cannot assist with that request.",
        "We are unable to evaluate this text.",
        "I am sorry to say that I can't rate it.",
        "I respectfully decline to rate this.",
        "I can’t say yes or no.",
        "N/A",
        "Not applicable: there is no source.",
        "refused",
        "null",
    ],
)
def test_refusals_are_recognized(text):
    assert declines(text)


@pytest.mark.parametrize(
    "text",
    [
        "I can't say anything bad about this text.",
        "I couldn't find any errors.",
        "I cannot really fault the summary.",
        "I'm unable to detect an inconsistency.",
        "I could not agree more",
        "We won't lie: it is excellent.",
        "I can’t even think of a better one.",
        "I am sorry to see so many errors.",
        "N/A for fluency, but coherence 4",
        "The author refused.",
    ],
)
def test_praise_and_blame_are_no_refusals(text):
    assert not declines(text)
