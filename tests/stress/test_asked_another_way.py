"""Stress runs on scripted judges: order of texts, labels and scale, and verified paraphrases."""

from __future__ import annotations

import re

import pytest

from benchmarks.planted_judges import texts
from textassay.evaluation.request import RunRequest
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import Capabilities
from textassay.runtime.settings import Settings
from textassay.stress import StressPlan, StressRun, read_result
from textassay.stress.paraphrase import unlike
from textassay.stress.runner import reversed_labels

OUTPUT = re.compile(r"<output-[0-9a-f]{8}>\n(.*?)\n</output", re.DOTALL)


async def stressed(tests, judge, *, out=None, resume=False, count=24, **models):
    request = RunRequest(
        method="llm-score",
        task="summarization",
        aspects=("coherence",),
        settings=Settings(no_cache=True),
        out=out,
        resume=resume,
    )
    scripts = {"": ScriptedModel(judge, capabilities=Capabilities(n=True))}
    scripts |= {role: ScriptedModel(script, name=role) for role, script in models.items()}
    # a test that is named needs its model in the order; whole runs give models as objects
    order = StressPlan(request=request, tests=tests)
    result = await StressRun(order, examples=texts(count), models=scripts).run()
    return result, {row.test: row for row in result.rows}


def quality(text):
    numbers = re.findall(r"\d+", text)
    return 2 + int(numbers[-1]) % 3 if numbers else 1


def fair(request):
    value = quality(OUTPUT.search(request.text)[1])
    return "ABCDE"[value - 1] if "Choose one option" in request.text else f"Fine.\nScore: {value}"


def likes_the_first(request):
    """Takes the option that stands first."""
    found = re.search(r"(?m)^([A-E])\. ", request.text)
    return found[1] if found else fair(request)


def prefers_high_ends(request):
    """Says the end of the scale that is named first, if it is the best one."""
    return "Score: 5" if "from 5 (best)" in request.text else fair(request)


@pytest.mark.parametrize(
    ("judge", "failing"),
    [
        (fair, set()),
        (likes_the_first, {"letters", "label-order"}),
        (prefers_high_ends, {"scale-order"}),
    ],
)
async def test_orders_of_labels_and_scale(judge, failing):
    _, rows = await stressed(("position",), judge)
    assert {"letters", "label-order", "scale-order"} <= set(rows)
    assert {name for name, row in rows.items() if row.verdict == "fails"} == failing
    if not failing:
        assert {row.verdict for row in rows.values()} == {"holds"}


async def test_label_order_alone_is_held_against_letters():
    """The usual order of letters is asked for as well, and is no row of its own."""
    _, rows = await stressed(("label-order",), likes_the_first)
    assert set(rows) == {"repeat", "label-order"}
    assert rows["label-order"].shift.value == 4


async def test_a_judge_that_prefers_the_first_text_fails_swap():
    """Always A: every choice flips; a fair one holds."""
    pairs = [
        one.model_copy(update={"meta": {"output_b": other.output}})
        for one, other in zip(texts(24), texts(24, seed=1), strict=True)
    ]

    def longer(request):
        a, b = (
            re.search(rf"<output-{x}-\w+>\n(.*?)\n</", request.text, re.DOTALL)[1] for x in "ab"
        )
        return f"Answer: {'A' if (len(a), a) > (len(b), b) else 'B'}"

    for judge, verdict in ((lambda request: "Answer: A", "fails"), (longer, "holds")):
        request = RunRequest(
            method="pairwise",
            task="summarization",
            aspects=("coherence",),
            settings=Settings(no_cache=True),
        )
        order = StressPlan(request=request, tests=("swap",))
        run = StressRun(order, examples=pairs, models={"": ScriptedModel(judge)})
        row = next(row for row in (await run.run()).rows if row.test == "swap")
        assert row.verdict == verdict
        assert row.flips.value == (1.0 if verdict == "fails" else 0.0)


def other_words(request):
    text = re.search(r"<text-\w+>\n(.*?)\n</text", request.text, re.DOTALL)[1]
    changed = text.replace("was finished by", "was brought to an end by")
    number = int(re.findall(r"number (\d+)", text)[-1])
    if number % 4 == 0:
        changed = changed.replace("million", "thousand million")  # only the verifier can see it
    if number % 4 == 1:
        changed = re.sub(r"\d+", "7", changed)
    return f"Sure.\n\nIn other words:\n{changed}"


def strict(request):
    a, b = (re.search(rf"<text-{x}-\w+>\n(.*?)\n</", request.text, re.DOTALL)[1] for x in "ab")
    return "no" if ("thousand" in a) != ("thousand" in b) else "Yes."


async def test_paraphrases_are_verified_one_by_one(tmp_path):
    """Half of them change a number or a fact: dropped and counted; the others are judged."""
    heard = []

    def listens(request):
        heard.append(OUTPUT.search(request.text)[1])
        return fair(request)

    models = {"paraphraser": other_words, "verifier": strict}
    result, rows = await stressed(None, listens, out=tmp_path / "run", **models)
    assert result.paraphrased == (24, 12)
    assert (rows["paraphrase"].n, rows["paraphrase"].verdict) == (12, "holds")
    assert sum("brought to an end" in text for text in heard) == 12
    assert not any("thousand million" in text for text in heard)
    found = read_result(tmp_path / "run")
    assert found["paraphrases"] == {"asked": 24, "verified": 12}
    heard.clear()
    again, _ = await stressed(None, listens, out=tmp_path / "run", resume=True, **models)
    assert again.as_dict() == result.as_dict()
    assert not heard


async def test_a_judge_that_goes_by_the_words_fails_paraphrase():
    """It marks down what is said in other words; a named test needs the model that writes them."""

    def pedant(request):
        return "Score: 1" if "brought to an end" in request.text else fair(request)

    _, rows = await stressed(None, pedant, paraphraser=other_words, verifier=strict)
    assert rows["paraphrase"].verdict == "fails"
    with pytest.raises(ConfigurationError, match=r"model=\{'paraphraser': NAME\}"):
        await stressed(("paraphrase",), fair)
    result, rows = await stressed(None, fair, count=4)
    assert "paraphrase" not in {*rows, *result.untested}


def test_rules_before_a_model_is_asked():
    assert "no text" in unlike("It rained.", " ")
    assert "original" in unlike("It rained.", "it RAINED.")
    assert "words" in unlike("It rained all day in the town of Essen.", "Rain.")
    assert "numbers" in unlike("It cost 1,200 in 1990.", "In 1990 the price was 1,300.")
    assert unlike("It cost 1,200 in 1990.", "In 1990 the price was 1,200.") is None


def test_labels_are_listed_the_other_way_around():
    text = "<output-0123abcd>\nA. 1\nB. 2\n</output-0123abcd>"
    prompt = f"{text}\nChoose one:\nA. 1, the lowest rating\nB. 2\nC. 3, the highest rating\nNow."
    assert reversed_labels(prompt) == (
        f"{text}\nChoose one:\nC. 3, the highest rating\nB. 2\nA. 1, the lowest rating\nNow."
    )
    assert "from E (best) to A (worst)" in reversed_labels("the letter from A (worst) to E (best)")
