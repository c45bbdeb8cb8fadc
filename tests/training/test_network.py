"""The network sees what it should, copies before training, and is the same in llama.cpp."""

import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch (make extras)")
pytest.importorskip("tokenizers", reason="training needs tokenizers (make extras)")

from tests.training.test_cases import OTHER, STORY, TURNS  # noqa: E402
from textassay import connect  # noqa: E402
from textassay.demo import data_file  # noqa: E402
from textassay.prompts import simplify  # noqa: E402
from textassay.runtime.backends.local.llamacpp import (  # noqa: E402
    EMBEDDED_FILE,
    EMBEDDED_FOLDER,
    LlamaCppModel,
)
from textassay.runtime.data.dataset import Examples  # noqa: E402
from textassay.runtime.model import ContinuationRequest  # noqa: E402
from training.corpus import Article, Dialogue  # noqa: E402
from training.encoding import ANSWER, CANDIDATE, Branch, Encoder, train_tokenizer  # noqa: E402
from training.export import export  # noqa: E402
from training.learning import (  # noqa: E402
    Plan,
    Texts,
    average,
    by_branch,
    held_out,
    losses,
    new_network,
    ranking_loss,
    together,
    train,
)
from training.network import Shape, batch_of  # noqa: E402
from training.parity import log_probabilities, read_back, read_tokenizer, weights_of  # noqa: E402

SMALL = Shape(vocabulary=700, layers=2, hidden=64)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([" ".join((*STORY, *OTHER, *TURNS)).lower()] * 4, SMALL.vocabulary)


def made_texts(tokenizer):
    articles = [Article(None, STORY), Article(None, OTHER)]
    return Texts(articles, [Dialogue(("", ""), TURNS)], Encoder(tokenizer), 0)


def branch(ids, question):
    places = [
        i if q == 0 else question.count(0) + question[:i].count(q) for i, q in enumerate(question)
    ]
    arrays = (
        np.array(ids),
        np.roll(ids, -1),
        np.full(len(ids), CANDIDATE),
        np.array(question),
        np.array(places),
    )
    return Branch(*arrays, ())


def scores(network, contexts, branches):
    """Scores of each branch's tokens."""
    with torch.no_grad():
        found = network.scores(network(batch_of([np.array(c) for c in contexts], branches))).numpy()
    parts, at = [], sum(map(len, contexts))
    for one in (b for group in branches for b in group):
        parts.append(found[at : at + len(one.ids)])
        at += len(one.ids)
    return parts


def test_branches_and_questions_do_not_see_each_other():
    network = new_network(SMALL, 0)
    context, candidate = [0, 5, 9, 12, 40], [50, 51, 52]
    alone = scores(network, [context], [[branch([*candidate, 60, 61], [0, 0, 0, 1, 1])]])[0]
    mixed = scores(
        network,
        [[0, 7], context],
        [
            [branch([80, 81], [0, 0])],
            [branch([99] * 9, [0] * 9), branch([*candidate, 70, 60, 61], [0, 0, 0, 1, 2, 2])],
        ],
    )[2]
    np.testing.assert_allclose(mixed[[0, 1, 2, 4, 5]], alone, atol=2e-4)


def test_an_untrained_network_copies():
    network = new_network(Shape(), 0)
    words = random.Random(0).sample(range(300, 4000), 40)
    got = scores(network, [[0, *words]], [[branch(words, [0] * len(words))]])[0]
    right = [int(row.argmax()) == word for row, word in zip(got[:-1], words[1:], strict=True)]
    assert np.mean(right[1:]) > 0.95


def test_training_learns_and_gives_the_same_network_again(tokenizer):
    def trained():
        network, said = new_network(SMALL, 0), []
        texts = made_texts(tokenizer)
        plan = Plan(steps=6, words=(20, 50), decay=0.5, tokens=512)
        held = [texts.block(4, (20, 50))]
        train(
            network,
            texts,
            plan,
            "cpu",
            said.append,
            lambda: None,
            lambda: held_out(network, held, Encoder(tokenizer), "cpu"),
            3,
        )
        return network, [line["held_out"] for line in said if "held_out" in line]

    (one, told), (other, _) = trained(), trained()
    assert told[-1]["candidate"] < told[0]["candidate"]
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_the_better_candidate_is_to_gain_more_by_its_context(tokenizer):
    """Loss falls as the better one's lead grows; nearly equal ones are not compared."""
    texts = made_texts(tokenizer)
    case = texts.block(1, (20, 50))[0]
    picked, n = [[0, 1]], len(case.branches)
    given = torch.full((n,), 2.0)

    def loss(worth, alone):
        changed = replace(case, worth=(*worth, *case.worth[2:]))
        return ranking_loss([changed], picked, given, torch.tensor(alone))

    assert loss((0.5, 0.55), [3.0, 1.0]) is None
    far, near, wrong = (float(loss((0.9, 0.2), [x, 2.5])) for x in (4.0, 2.6, 1.0))
    assert far < near < wrong
    assert float(loss((0.2, 0.9), [1.0, 2.5])) < near


def test_each_candidate_has_its_own_mean(tokenizer):
    """By hand, over the tokens that count of each branch."""
    network = new_network(SMALL, 0)
    texts = made_texts(tokenizer)
    cases = texts.block(2, (20, 50))
    batch = together(cases)
    with torch.no_grad():
        nll, why, _ = losses(network, batch)
        found = by_branch(batch, nll, why).tolist()
    at = sum(batch.why[: len(batch.ids) - len(batch.at_branch)] > 0)
    for branch_, mean in zip((b for c in cases for b in c.branches), found, strict=True):
        wanted = branch_.why[branch_.why > 0]
        own = nll[at : at + len(wanted)][torch.from_numpy(wanted != ANSWER)]
        at += len(wanted)
        assert mean == pytest.approx(float(own.mean()) if len(own) else 0.0, abs=1e-4)


WITHIN = {"f32": 1e-3, "f16": 0.01, "q8_0": 0.05}


async def differences(model, file, prompts):
    """How far mean log-probabilities in llama.cpp are from those of the written network."""
    network, tokenizer = read_back(file), read_tokenizer(file)
    for given, scored in prompts:
        request = ContinuationRequest(prompt=given, continuation=scored)
        theirs = [token.logprob for token in (await model.continuation(request)).tokens]
        ids = [0, *tokenizer.encode(given).ids]
        ours = log_probabilities(network, ids, tokenizer.encode(scored).ids)
        assert len(theirs) == len(ours)
        yield abs(np.mean(theirs) - np.mean(ours))


@pytest.mark.parametrize("weights", WITHIN)
async def test_llama_cpp_gives_the_same_log_probabilities(tmp_path, tokenizer, weights):
    pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")
    network, file = new_network(SMALL, 0), tmp_path / "small.gguf"
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    export(network, tmp_path / "tokenizer.json", file, weights)
    assert Encoder(read_tokenizer(file)).end == Encoder(tokenizer).end
    prompts = [("article: the town of ashford\nsummary:", " the town of ashford opened")]
    model = LlamaCppModel("llamacpp/small", str(file))
    try:
        [found] = [d async for d in differences(model, file, prompts)]
    finally:
        await model.aclose()
    assert found < WITHIN[weights]


async def test_the_packaged_model_is_the_network_that_was_trained():
    """On bundled texts."""
    pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")
    file = EMBEDDED_FOLDER / EMBEDDED_FILE
    prompts = [
        (
            f"article: {simplify(one.source or '').replace(chr(10), ' ')}\nsummary:",
            f" {simplify(one.output)}",
        )
        for one in islice(Examples(data_file("summarization")), 16)
    ]
    async with connect("embedded") as model:
        found = [d async for d in differences(model, file, prompts)]
    assert len(found) == 16
    assert max(found) < WITHIN[weights_of(file)]


def test_an_average_keeps_a_share_of_the_trained_weights():
    """Three quarters of one and a quarter of the other, in every weight."""
    trained, begun = new_network(SMALL, 0), new_network(SMALL, 1)
    expected = [
        0.75 * own + 0.25 * other
        for own, other in zip(trained.parameters(), begun.parameters(), strict=True)
    ]
    average(trained, begun, 0.75)
    for own, value in zip(trained.parameters(), expected, strict=True):
        torch.testing.assert_close(own, value)
