"""Examples cross to workers as their fields, and arrive as they were."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from textassay.cluster.packing import pack_examples, unpack_examples
from textassay.evaluation.feed import FedExample
from textassay.runtime.messages import Example


class OwnExample(Example):
    """An example of the caller's program."""

    note: str = ""


RATINGS = st.dictionaries(st.text(max_size=3), st.none() | st.floats(1, 5), max_size=2)
EXAMPLES = st.builds(
    Example,
    id=st.text(min_size=1, max_size=9),
    output=st.text(max_size=9),
    source=st.none() | st.text(max_size=9),
    references=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    human=RATINGS,
    metrics=RATINGS,
    meta=st.dictionaries(st.text(max_size=3), st.integers() | st.lists(st.text(max_size=3))),
)


@given(st.lists(st.tuples(EXAMPLES, st.lists(st.text(max_size=3), max_size=2).map(tuple))))
def test_examples_arrive_as_they_were(pairs):
    handed = [FedExample(example, completed) for example, completed in pairs]
    arrived = unpack_examples(pickle.loads(pickle.dumps(pack_examples(handed))))
    assert arrived == handed
    assert [each.example.model_dump() for each in arrived] == [
        each.example.model_dump() for each in handed
    ]


def test_an_example_of_another_class_keeps_it():
    handed = [FedExample(OwnExample(id="a", output="b", note="c"), ("fluency",))]
    (arrived,) = unpack_examples(pickle.loads(pickle.dumps(pack_examples(handed))))
    assert type(arrived.example) is OwnExample
    assert arrived == handed[0]
