"""What the embedded model learns from: each respect spoilt by itself, and known answers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import alterations, inventions, items, rewording
from training.corpus import Article, CorpusError, Dialogue, read

STORY = (
    "The town of Ashford opened a new library on Monday.",
    "Mayor Linda Green said the building cost 4 million pounds.",
    "It holds more than 60,000 books and is open every day.",
    "Local firms gave half of the money for the children's rooms.",
    "The old library was closed in March because its roof was leaking.",
    "Anna Brown, who worked there for 20 years, will not move to the new one.",
)
OTHER = (
    "Farmers in the valley expect a poor harvest this year.",
    "Rain has fallen on 50 of the last 60 days.",
    "Peter Hill said his potatoes were rotting in the ground.",
    "Prices could rise by 10 per cent before Christmas.",
)
TURNS = (
    "Hi, do you like sport?",
    "Yes, I play tennis with my sister.",
    "Nice, how often do you play?",
    "Every Sunday morning.",
)
seeds = st.integers(0, 2**32).map(random.Random)


@given(seeds, st.floats(0.05, 0.4))
def test_an_alteration_changes_what_it_says(rng, share):
    sentence = "On Monday Linda Green thanked Peter Hill and Anna Brown for a letter."
    swapped = alterations.swap_roles(sentence, rng)
    assert swapped != sentence
    assert sorted(swapped.rstrip(".").split()) == sorted(sentence.rstrip(".").split())
    swap_name = alterations.swap_name(["Oslo"])
    assert swap_name("She moved to Paris with him.", rng) == "She moved to Oslo with him."
    assert swap_name("nothing to swap here", rng) is None
    letter = alterations.transplant(["A letter of Peter Hill went to Anna Brown."], ["Ashford"])
    assert letter("Anything.", rng) == "A letter of Ashford went to Ashford."
    assert alterations.transplant(["it rained all day."], ["Ashford"])("Anything.", rng) is None
    garbled = alterations.garble(STORY[1], rng, share)
    assert garbled is None or garbled != STORY[1]
    assert alterations.garble("Too short.", rng) is None
    for sentence in STORY:  # rewording keeps names and numbers
        kept = [name for name in alterations.names(sentence) if name not in ("4", "20")]
        assert all(name in rewording.reword(sentence, rng) for name in kept)
    for said, meant in (
        ("It was not cold.", "It was cold."),
        ("She can't come.", "She can come."),
        ("He will stay.", "He will not stay."),
    ):
        assert alterations.negate(said, random.Random(0)) == meant


@given(seeds)
def test_fused_sentences_meet_at_a_word_of_both(rng):
    one = "The old library was closed in March because its roof was leaking."
    other = "Linda Green said that the new building was paid for by local firms."
    fused = alterations.fuse_with(other)(one, rng)
    assert fused not in (None, one, other)
    words, ends = fused.split(), other.split()
    assert any(
        words[:i] == one.split()[:i] and words[i:] == ends[len(ends) - len(words) + i :]
        for i in range(3, len(words))
    )
    assert alterations.fuse_with("Nothing here occurs there, not even one word.")(one, rng) is None


@given(seeds)
def test_an_answer_is_yes_exactly_where_its_respect_is_sound(rng):
    case = items.article_case(STORY, None, OTHER, rng, 4)
    assert len(case.candidates) == 4
    for candidate in case.candidates:
        asked = {
            one.aspect: one.steps[-1]
            for one in items.questions(case, candidate, rng)
            if "question:" in one.steps[0][0]
        }
        for aspect, (question, answer) in asked.items():
            assert question == f"\nquestion: {items.QUESTIONS['summary', aspect]}\nanswer:"
            assert (answer == " yes") is (candidate.quality[aspect] >= 0.8)
        for aspect, parts in candidate.parts.items():
            if aspect in candidate.quality:
                sound = candidate.quality[aspect] >= (0.7 if aspect == "coherence" else 1.0)
                assert sound is all(good for _, good in parts)
        if candidate.faithful:
            known = {"consistency", "fluency", "coherence"} & set(candidate.quality)
            assert all(candidate.quality[aspect] == 1.0 for aspect in known)


def test_what_the_title_names_is_important_wherever_it_stands():
    last = len(STORY) - 1
    plain, named = (items._salience(STORY, title) for title in (None, "Anna Brown stays"))
    assert named[last] / named[0] > plain[last] / plain[0]
    assert items._salience(STORY, "Nothing of the kind") == plain


@given(seeds)
def test_a_text_about_something_else_is_worth_nothing(rng):
    """How many there are is as wanted."""
    for share, of_the_article in ((0.0, True), (1.0, False)):
        for candidate in items.article_case(STORY, None, OTHER, rng, 4, share).candidates:
            quality = candidate.quality
            assert (quality["relevance"] > 0) is of_the_article
            assert of_the_article or quality["consistency"] <= 0.6  # which is answered by no
            assert (candidate.worth == 0) is (min(quality.values()) == 0)
            assert of_the_article or candidate.worth == 0


@given(seeds)
def test_responses_that_make_no_sense_there_are_neither_natural_nor_clear(rng):
    foreign = "I sell cars for a living."
    for kind, natural, clear in (("real", 1.0, 1.0), ("fused", 0.25, 0.0), ("foreign", 0.25, 0.25)):
        reply = items._reply(kind, TURNS[:2], TURNS[2], foreign, None, rng)
        assert reply.quality["naturalness"] <= natural
        assert reply.quality["understandability"] <= clear
        assert kind == "real" or reply.quality["engagingness"] == 0.25


def test_respects_are_spoilt_independently():
    rng = random.Random(0)
    found = [
        one for _ in range(300) for one in items.article_case(STORY, None, OTHER, rng, 4).candidates
    ]
    for one, other in (
        ("consistency", "fluency"),
        ("consistency", "relevance"),
        ("fluency", "relevance"),
    ):
        both = [(c.quality[one] >= 0.8, c.quality[other] >= 0.8) for c in found]
        for pair in ((True, True), (True, False), (False, True), (False, False)):
            assert both.count(pair) > 0.04 * len(both), (one, other, pair)


@given(seeds)
def test_dialogues_and_records_have_a_real_answer_first(rng):
    dialogue = Dialogue(("I play tennis.", "I have a sister."), TURNS)
    case = items.talk_case(dialogue, ["I sell cars for a living."], rng, 4)
    assert case.candidates[0].quality["coherence"] == 1.0
    assert case.context.splitlines()[-1].startswith("- ")
    record = items.record_case(rng, 4)
    assert record.context.startswith("data: ")
    assert all(0 <= value <= 1 for one in record.candidates for value in one.quality.values())
    made = inventions.record(rng)
    told = " ".join(made.told(made.slots, rng))
    assert all(value in told for key, value in made.slots if key != "pets allowed")


def test_the_corpus_is_read_as_articles_and_dialogues(tmp_path):
    with pytest.raises(CorpusError, match=r"no \.txt"):
        read(tmp_path)
    talk = "About A: I play tennis.\n" + "\n".join(
        f"{'AB'[i % 2]}: {turn}" for i, turn in enumerate(TURNS)
    )
    article = "A new library for Ashford\n" + " ".join(STORY)
    (tmp_path / "mine.txt").write_text(f"{article}\n<|endoftext|>\n{talk}", encoding="utf-8")
    (tmp_path / "sgd.txt").write_text(
        "\n".join(f"A: share-alike {i}" for i in range(9)), encoding="utf-8"
    )
    articles, dialogues = read(tmp_path)
    assert articles == [Article("A new library for Ashford", STORY)]
    assert dialogues == [Dialogue(("I play tennis.", ""), TURNS)]
