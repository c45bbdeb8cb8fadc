"""Keys that a server echoes are replaced wherever an answer can hold them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.masking import MASK, MaskedModel, find_secrets
from textassay.runtime.errors import RequestRefused
from textassay.runtime.model import ChatMessage, Request, Response, Sample, TokenLogprob

KEY = "sk-0123456789abcdef"
ASK = Request(messages=(ChatMessage(role="user", content="Rate it."),))


def test_known_secrets_are_those_in_use_and_those_of_the_environment():
    environment = {
        "A_KEY": "k" * 12,
        "B_TOKEN": "short",
        "HOME": "/home/somebody",
        "C_SECRET": "k" * 13,
    }
    assert find_secrets(["EMPTY", "12345678"], environment) == ("k" * 13, "k" * 12, "12345678")


async def test_an_error_does_not_show_a_key():
    model = MaskedModel(ScriptedModel([RequestRefused(f"refused: Bearer {KEY}")]), [KEY])
    with pytest.raises(RequestRefused, match=r"refused: Bearer \[key\]") as refused:
        await model.generate(ASK)
    assert KEY not in str(refused.value)


@given(before=st.text(max_size=5), after=st.text(max_size=5), cuts=st.sets(st.integers(1, 27)))
async def test_no_text_token_or_alternative_shows_a_key(before, after, cuts):
    text = before + KEY + after
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    tokens = tuple(
        TokenLogprob(token=text[a:b], logprob=-0.5, top=((text[a:b], -0.5), (KEY, -2.0)))
        for a, b in itertools.pairwise(places)
    )
    reply = Response(
        samples=(Sample(text=text, logprobs=tokens, thought=f"about {KEY}"),), model=f"judge {KEY}"
    )
    answer = await MaskedModel(ScriptedModel([reply]), [KEY]).generate(ASK)
    (sample,) = answer.samples
    assert (sample.text, sample.thought) == (before + MASK + after, f"about {MASK}")
    assert answer.model == f"judge {MASK}"
    assert len(sample.logprobs) == len(tokens)
    assert [token.logprob for token in sample.logprobs] == [-0.5] * len(tokens)
    shown = "".join(token.token for token in sample.logprobs)
    assert not any(KEY[at : at + 4] in shown for at in range(len(KEY) - 3))
    assert KEY not in answer.model_dump_json()


async def test_an_answer_without_a_key_is_the_very_answer():
    reply = Response(samples=(Sample(text="Rating: 4"),))
    assert await MaskedModel(ScriptedModel([reply]), [KEY]).generate(ASK) is reply
