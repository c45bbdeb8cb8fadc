"""Edits change what they say they change, and nothing else; the same call makes the same text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.planted_judges import texts
from textassay.runtime.errors import DataError, UnknownName
from textassay.runtime.messages import Example
from textassay.stress import chosen_tests
from textassay.stress.edit import EditContext, Variants, read_role, sentences
from textassay.stress.families import (
    FORMATTING,
    as_tags,
    deleted,
    neutral_text,
    normalized,
    reversed_scale,
    shuffled,
)
from textassay.stress.suite import EDITS, TESTS

TEXTS = st.text(st.sampled_from("ab .!?\n\"'*-\u2019\u201c\t1A"), max_size=80)


def around(seed=0):
    return EditContext(random.Random(seed))


@pytest.mark.parametrize("edit", FORMATTING, ids=lambda edit: edit.test)
@given(text=TEXTS)
def test_a_format_edit_is_equal_under_the_normalizer(edit, text):
    """White space, bullets, bold and quotes apart, the words are the same, whatever the text."""
    edited = edit.change(Example(id="x", output=text), around())
    assert edited is None or normalized(edited.output) == normalized(text)


@pytest.mark.parametrize("edit", EDITS.values(), ids=lambda edit: edit.test)
@given(text=TEXTS)
def test_an_edit_is_a_pure_function_and_changes_one_field(edit, text):
    """Equal arguments give equal texts; `None` where there is nothing to change."""
    example = Example(id="x", output=text, source=f"Source. {text}")
    one, two = (edit.change(example, around(3)) for _ in range(2))
    assert one == two
    if one is not None:
        changed = [
            name for name in ("output", "source") if getattr(one, name) != getattr(example, name)
        ]
        assert len(changed) == 1
        assert one.model_copy(update={changed[0]: getattr(example, changed[0])}) == example


@given(text=TEXTS)
def test_shuffling_and_deleting_keep_the_sentences(text):
    """The same sentences in another order; all but the longest."""
    example = Example(id="x", output=text)
    own = sentences(text)
    if (edited := shuffled(example, around())) is not None:
        assert sorted(edited.output.split()) == sorted(" ".join(own).split())
    if (edited := deleted(example, around())) is not None:
        assert len(edited.output) <= sum(map(len, own)) + len(own) - max(map(len, own))


def test_what_must_be_seen_is_there():
    """A number of as many digits, a negation, a name and a sentence of another source."""
    copies = {one.id: one.output for one in Variants(texts(20), list(EDITS.values()))}
    original = copies["t3"]
    number = copies["t3#number"]
    assert number != original
    assert len(number) == len(original)
    assert copies["t3#negation"].count(" not") == original.count(" not") + 1
    assert copies["t3#foreign-sentence"] != original
    assert len(sentences(copies["t3#foreign-sentence"])) == len(sentences(original)) + 1
    assert copies["t3#entity"] != original


def test_a_control_is_as_long_as_its_payload():
    """Within one word."""
    assert all(length - 15 < len(neutral_text(length)) <= length for length in range(20, 300, 7))
    assert as_tags("Rate").isprintable() is False


def test_variants_are_the_same_each_time_and_ids_do_not_clash():
    """An id that ends like that of a copy is refused."""
    examples = texts(6)
    variants = Variants(examples, list(EDITS.values()))
    assert list(variants) == list(variants)
    ids = [one.id for one in variants]
    assert len(set(ids)) == len(ids)
    clash = [examples[0].model_copy(update={"id": "x#padded"})]
    with pytest.raises(DataError, match="rename it"):
        list(Variants(clash, [EDITS["padded"]]))


def test_tests_are_chosen_by_name_and_family():
    """The noise floor is always made; what is unknown is an error that lists what there is."""
    assert chosen_tests(None) == TESTS == chosen_tests(["all"])
    assert chosen_tests(["length"]) == ("repeat", "padded", "restated", "truncated")
    assert chosen_tests(["bold"]) == ("repeat", "bold")
    with pytest.raises(UnknownName, match="must-see"):
        chosen_tests(["nothing"])


def test_aspects_have_roles_by_their_names():
    """Names that no rule knows have none."""
    names = ("Consistency", "coverage", "coherence/logical-flow", "naturalness", "Overall", "tone")
    assert [read_role(name) for name in names] == [
        "facts", "content", "order", "language", "overall", None,
    ]  # fmt: skip


def test_a_scale_is_turned_around_outside_of_the_texts_only():
    """What stands between delimiters belongs to the text."""
    text = "<output-0123abcd>\nfrom 1 (worst) to 5 (best)\n</output-0123abcd>"
    prompt = f"Coherence (1-5) - x\n{text}\nfrom 1 (worst) to 5 (best)"
    turned = f"Coherence (5-1) - x\n{text}\nfrom 5 (best) to 1 (worst)"
    assert reversed_scale(prompt) == turned
