"""Claims: split, verified against windows of the source, recomposed as FActScore does."""

import json
import math
import re

import pytest

from tests.methods.judging import judged
from textassay.agents.lookup import GAP, narrow
from textassay.methods import build
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.runtime.model import Capabilities
from textassay.tools import tool

EXAMPLE = Example(
    id="x",
    source="The mill burned on 3 May. Nobody was hurt. The owner will rebuild it.",
    output="The mill burned on 3 May and two men were hurt. It will be rebuilt.",
)
CLAIMS = ("The mill burned on 3 May.", "Two men were hurt.", "The mill will be rebuilt.")
TRUE = {
    CLAIMS[0]: ("The mill burned on 3 May", "yes"),
    CLAIMS[1]: ("Nobody was hurt", "no"),
    CLAIMS[2]: ("The owner will rebuild it", "yes"),
}


def judge(verdicts=TRUE, listed=CLAIMS):
    """A model that lists claims and answers with a quotation for each of them."""

    def reply(request):
        if "numbered list" in request.text:
            return "\n".join(f"{i}. {claim}" for i, claim in enumerate(listed, 1)) or "None"
        claim = re.findall(r"<output-\w+>\n(.*?)\n</output-", request.text, re.DOTALL)[-1]
        quote, answer = verdicts[claim]
        return json.dumps({"quote": quote, "answer": answer})

    return ScriptedModel(reply)


async def score(model, example=EXAMPLE, tools=(), task="summarization", **options):
    [found] = await judged("claims", model, example, task, tools=tools, **options)
    return found


async def test_the_score_is_the_share_of_supported_claims_each_with_its_evidence():
    model = judge()
    found = await score(model)
    about = ("consistency", pytest.approx(2 / 3), (0, 1))
    assert (found.aspect, found.value, found.scale) == about
    assert [(e["text"], e["value"], e["quote"]) for e in found.evidence] == [
        (claim, float(TRUE[claim][1] == "yes"), TRUE[claim][0]) for claim in CLAIMS
    ]
    assert {e["found_in"] for e in found.evidence} == {"source"}
    assert found.usage.calls == len(model.requests) == 4
    # the splitter is not shown the source, by which it might mend the claims
    assert "Nobody was hurt" not in model.requests[0].text


async def test_a_claim_supported_by_a_made_up_passage_is_abstained_and_counted():
    made_up = TRUE | {CLAIMS[1]: ("Two men were hurt", "yes")}  # it stands in the output alone
    found = await score(judge(made_up))
    assert found.value == 1
    assert found.evidence[1]["outcome"] == "abstained"
    assert "QuoteNotFound" in found.evidence[1]["problem"]
    assert found.evidence[-1] == {"text": "1 of 3 claims have no verdict", "abstained": 1}
    # a "no" needs no passage: there may be none about the claim
    assert (await score(judge(TRUE | {CLAIMS[1]: ("", "no")}))).value == pytest.approx(2 / 3)
    found = await score(judge(dict.fromkeys(CLAIMS, ("Never said at all", "yes"))))
    assert (found.value, found.outcome, found.error.type) == (None, "abstained", "QuoteNotFound")


@pytest.mark.parametrize(("gamma", "factor"), [(0, 1), (2, 1), (3, 1), (10, math.exp(1 - 10 / 3))])
async def test_few_claims_are_penalized_as_factscore_does(gamma, factor):
    assert (await score(judge(), gamma=gamma)).value == pytest.approx(2 / 3 * factor)


async def test_a_text_without_claims_and_an_example_without_a_source_have_no_score():
    found = await score(judge(listed=()))
    assert (found.value, found.outcome, found.error.type) == (None, "abstained", "NoClaims")
    model = judge()
    found = await score(model, EXAMPLE.model_copy(update={"source": None}))
    assert (found.outcome, found.error.type, model.requests) == ("abstained", "MissingSource", [])
    found = await score(ScriptedModel(["Well.", "I see no list here."]))
    assert (found.outcome, found.error.type) == ("invalid", "NoClaimList")
    assert found.usage.calls == 2


async def test_a_tool_verifies_sentences_without_any_model():
    @tool(description="share of words in the source", scale=(0, 1), needs=("premise",))
    def shared(example: Example) -> float:
        words = re.findall(r"\w+", example.output.lower())
        return sum(word in example.source.lower() for word in words) / len(words)

    options = {"split": "sentences"}
    found = await score({}, tools=[shared], **options)
    values = [7 / 11, 1 / 2]
    assert [e["value"] for e in found.evidence] == pytest.approx(values)
    assert found.value == 0.5  # one half is not above one half
    found = await score({}, tools=[shared], support="probability", **options)
    assert found.value == pytest.approx(sum(values) / 2)
    assert found.signature.startswith("method:claims|model:-|")
    for tools, more, problem in (
        ([shared], {"pattern": "Is it so?"}, r"pattern=Is it so\? has no effect"),
        (["chrf"], {}, "no probability of support"),
        (["coverage", "novelty"], {}, "one tool verifies"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            await score({}, tools=tools, **options, **more)


async def test_p_yes_asks_one_question_for_each_claim():
    asked = []

    def choices(request):
        asked.append("\n".join(m.content for m in request.messages))
        return {"yes": math.log(0.75), "no": math.log(0.25)}

    model = ScriptedModel([], capabilities=Capabilities(choices=True), choices=choices)
    found = await score(model, split="sentences", verify="p-yes", support="probability")
    assert found.value == pytest.approx(0.75)
    assert len(asked) == len(found.evidence) == 2
    assert all("Is everything that this summary says supported by the source text?" in one
               for one in asked)  # fmt: skip


def test_the_judged_aspects():
    names = {
        "summarization": ["consistency"], "dialogue": ["groundedness"],
        "data-to-text": ["consistency"], "general": ["consistency"],
    }  # fmt: skip
    for task, expected in names.items():
        assert [a.name for a in build("claims", judge(), task=task).aspects] == expected
    [own] = build("claims", judge(), task="summarization", aspects=["fluency"]).aspects
    assert own.name == "fluency"  # a single aspect is taken as the user names it
    with pytest.raises(ConfigurationError, match="none of coherence, fluency is about that"):
        build("claims", judge(), task="summarization", aspects=["coherence", "fluency"])


def test_a_long_source_is_narrowed_to_the_windows_closest_to_the_claim():
    filler = [f"Line {i} is about the weather in town number {i}." for i in range(400)]
    facts = ["The zeppelin landed at noon.", "Its pilot was Ada Quill."]
    message = [*filler[:120], facts[0], *filler[120:333], facts[1], *filler[333:]]
    example = Example(output="x", source=" ".join(message))
    shown = narrow(example, "Ada Quill flew the zeppelin.", window=60, most=2).source
    assert all(fact in shown for fact in facts)
    assert shown.index(facts[0]) < shown.index(GAP) < shown.index(facts[1])
    assert len(shown.split()) <= 2 * 60 + 1
    short = example.model_copy(update={"source": " ".join(facts)})
    assert narrow(short, "anything", window=60, most=2) is short
