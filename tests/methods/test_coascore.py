"""CoAScore by hand: a chain once, rated in one answer, the target with both as knowledge; and the
variants."""

import pytest

from tests.methods.judging import scores_of
from textassay.methods import build
from textassay.methods.coascore import CoAScoreOptions, name_chains
from textassay.methods.library import tasks, trees
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example, Failure
from textassay.runtime.model import Capabilities, Response, Sample

EXAMPLE = Example(id="x", output="A cat sat. Logical flow: 1", source="In 1987 a cat sat on a mat.")
NO_JSON = Capabilities(n=True, json_schema=False)
CHAIN = """Here are three aspects:
1. Logical flow: whether each sentence follows from the last.
2. Cohesive devices: whether markers join the sentences.
3. Conciseness: whether nothing is said twice."""
LOGIC = ("Logical flow", "whether each sentence follows from the last.")
RATINGS = "Logical flow: 4\nCohesive devices: 2\nConciseness: 3"


def stage(request):
    """Which of the three stages a request belongs to."""
    if (
        "aspects that are relevant to" in request.text
        and "Answer with a numbered list" in request.text
    ):
        return "chain"
    return "ratings" if "on each of these aspects" in request.text else "target"


def judge(**said):
    replies = {"chain": CHAIN, "ratings": RATINGS, "target": "It flows. Score: 4"} | said
    iterators = {name: iter(reply) for name, reply in replies.items() if isinstance(reply, list)}

    def reply(request):
        name = stage(request)
        return next(iterators[name]) if name in iterators else replies[name]

    return ScriptedModel(reply, name="judge", capabilities=NO_JSON)


def coascore(model, task="summarization", aspects=("coherence",), **options):
    named = "aspects_file" not in options and options.get("variant") != "inter"
    given = ({"n_aspects": 3} if named else {}) | options
    return build("coascore", model, task=task, aspects=aspects, options=given)


async def test_the_three_stages_by_hand():
    model = judge()
    [score] = await scores_of(coascore(model), EXAMPLE)
    assert (score.id, score.aspect, score.value, score.how) == ("x", "coherence", 4, "text")
    assert (score.scale, score.explanation) == ((1, 5), "It flows. Score: 4")
    assert [stage(request) for request in model.requests] == ["chain", "ratings", "target"]
    assert all(
        (request.temperature, request.n, request.top_p) == (0, 1, 1) for request in model.requests
    )
    chain, ratings, target = (request.text for request in model.requests)
    assert "name 3 aspects" in chain
    assert EXAMPLE.output not in chain
    assert "1. Logical flow (1 to 5): whether each sentence follows from the last." in ratings
    rated = [(*LOGIC, 4), ("Cohesive devices", "whether markers join the sentences.", 2),
             ("Conciseness", "whether nothing is said twice.", 3)]  # fmt: skip
    for number, (name, definition, value) in enumerate(rated, start=1):
        assert f"{number}. {name} (rated {value} on a scale from 1 to 5): {definition}" in target
    assert tasks.load("summarization", ["coherence"]).aspects[0].definition in target
    about = {"outcome": "scored", "scale": [1, 5]}
    assert score.evidence == tuple(
        {"text": name, "definition": definition, "value": value, **about}
        for name, definition, value in rated
    )
    assert score.usage.calls == 2  # the chain serves the whole run; the engine counts it
    model = judge()
    [score] = await scores_of(coascore(model, variant="no-scores"), EXAMPLE)
    assert [stage(request) for request in model.requests] == ["chain", "target"]
    target = model.requests[1].text
    assert f"1. {LOGIC[0]}: {LOGIC[1]}" in target
    assert "rated" not in target.split("Source Text")[0]
    assert score.evidence[0] == {"text": LOGIC[0], "definition": LOGIC[1]}


async def test_the_chain_is_named_once_a_target_and_reused_for_every_example():
    model = judge()
    method = coascore(model, aspects=("coherence", "fluency"))
    for number in range(4):
        scores = await scores_of(method, EXAMPLE.model_copy(update={"id": str(number)}))
        assert [(one.aspect, one.value) for one in scores] == [("coherence", 4), ("fluency", 4)]
    asked = [stage(request) for request in model.requests]
    assert (asked.count("chain"), asked.count("ratings"), asked.count("target")) == (2, 8, 8)


async def test_relevant_aspects_are_rated_on_a_scale_of_their_own():
    model = judge(ratings="Logical flow: 3\nCohesive devices: 2\nConciseness: 1", target="Score: 2")
    [score] = await scores_of(coascore(model, "dialogue", ["engagingness"]), EXAMPLE)
    assert (score.value, score.scale) == (2, (1, 3))
    assert "1. Logical flow (1 to 5)" in model.requests[1].text
    assert "(rated 3 on a scale from 1 to 5)" in model.requests[2].text


async def test_a_rating_that_is_left_out_is_asked_for_alone_and_shifts_no_other():
    model = judge(ratings=["Logical flow: 4\nConciseness: 3\nHumour: 1", "Cohesive devices: 5"])
    [score] = await scores_of(coascore(model), EXAMPLE)
    assert [item["value"] for item in score.evidence[:3]] == [4, 5, 3]
    again = model.requests[2].text
    assert "1. Cohesive devices (1 to 5)" in again
    assert "Conciseness (1 to 5)" not in again
    assert score.evidence[3] == {"text": "Humour: 1", "problem": "it was not requested"}
    assert score.evidence[4]["problem"] == "no usable rating for Cohesive devices"
    assert score.usage.calls == 3


async def test_aspects_that_stay_left_out_are_shown_as_not_rated():
    model = judge(ratings="Logical flow: 4\nConciseness: 9")
    [score] = await scores_of(coascore(model), EXAMPLE)
    assert score.value == 4
    target = model.requests[-1].text
    assert "1. Logical flow (rated 4 on a scale from 1 to 5)" in target
    assert "2. Cohesive devices (not rated): " in target
    assert "3. Conciseness (not rated): " in target
    assert [item["value"] for item in score.evidence[:3]] == [4, None, None]
    assert "leaves this aspect out" in score.evidence[1]["problem"]
    assert score.evidence[2]["problem"].startswith("OffScale")


@pytest.mark.parametrize(
    ("said", "outcome", "kind"),
    [
        ("4, 2 and 3", "invalid", "NoScoreFound"),
        ("I'm sorry, I cannot rate this.", "abstained", "Declined"),
    ],
)
async def test_without_any_rating_of_the_chain_there_is_no_score_and_the_target_is_not_asked(
    said, outcome, kind
):
    model = judge(ratings=said)
    [score] = await scores_of(coascore(model), EXAMPLE)
    assert (score.value, score.outcome, score.error.type) == (None, outcome, kind)
    assert "none of the 3 relevant aspects was rated" in score.error.message
    assert "target" not in map(stage, model.requests)
    assert any(item["text"] == said for item in score.evidence)
    last = model.requests[-1].messages[-1].content
    assert (last.startswith("Reply with the ratings alone")) == (outcome == "invalid")


async def test_a_chain_that_is_not_a_list_is_an_error_of_its_target_alone():
    def reply(request):
        if stage(request) == "chain" and "The aspect to rate is fluency" in request.text:
            return "Fluency has many sides. It is hard to tell them apart."
        return {"chain": CHAIN, "ratings": RATINGS, "target": "Score: 4"}[stage(request)]

    method = coascore(ScriptedModel(reply, capabilities=NO_JSON), aspects=("coherence", "fluency"))
    coherence, fluency = await scores_of(method, EXAMPLE)
    assert coherence.value == 4
    assert isinstance(fluency, Failure)
    assert (fluency.node, fluency.type) == ("chain", "MalformedResponse")
    assert "Fluency has many sides" in fluency.message


async def test_inter_takes_the_data_sets_own_aspects_on_their_own_scales():
    said = "Naturalness: 3\nCoherence: 2\nEngagingness: 1\nGroundedness: 0\nUnderstandability: 1"
    model = judge(ratings=said, target="Score: 2")
    [score] = await scores_of(coascore(model, "dialogue", ["overall"], variant="inter"), EXAMPLE)
    assert score.value == 2
    assert [stage(request) for request in model.requests] == ["ratings", "target"]
    assert [(item["text"], item["value"]) for item in score.evidence] == [
        ("naturalness", 3), ("coherence", 2), ("engagingness", 1), ("groundedness", 0),
        ("understandability", 1)
    ]  # fmt: skip
    assert "4. groundedness (0 to 1)" in model.requests[0].text
    assert "overall (" not in model.requests[0].text


async def test_random_scores_are_seeded_and_differ_by_example():
    def values(score):
        return tuple(item["value"] for item in score.evidence)

    found = {}
    for seed in (1, 1, 2):
        model = judge()
        method = coascore(model, variant="random", seed=seed, n_aspects=3)
        examples = [EXAMPLE.model_copy(update={"id": str(i)}) for i in range(20)]
        drawn = tuple([values(*await scores_of(method, example)) for example in examples])
        assert found.setdefault(seed, drawn) == drawn
        assert {value for row in drawn for value in row} == {1, 2, 3, 4, 5}
        assert "ratings" not in map(stage, model.requests)
        assert f"Logical flow (rated {drawn[0][0]:g} on" in model.requests[1].text
    assert found[1] != found[2]


async def test_average_is_the_mean_of_the_chain_and_asks_for_no_target():
    model = judge()
    method = coascore(model, variant="average")
    [score] = await scores_of(method, EXAMPLE)
    assert (score.value, score.how, method.how) == (3, "fused", "fused")
    assert "|how:fused|" in score.signature == method.signature
    assert [stage(request) for request in model.requests] == ["chain", "ratings"]
    assert [item["definition"] for item in score.evidence][2] == "whether nothing is said twice."
    assert score.usage.calls == 1


async def test_chains_come_from_a_file_that_was_saved_and_edited(tmp_path):
    model = judge()
    task = tasks.load("dialogue", ["engagingness"])
    tree = (await name_chains(model, task, CoAScoreOptions(n_aspects=3))).tree
    assert [aspect.id for aspect in tree][:2] == ["engagingness", "engagingness/logical-flow"]
    path = tmp_path / "chains.toml"
    trees.save(tree, path)
    path.write_text(path.read_text().replace("Logical flow", "Wit"))
    asked = len(model.requests)
    model = judge(ratings="Wit: 3\nCohesive devices: 2\nConciseness: 1", target="Score: 2")
    method = coascore(model, "dialogue", ["engagingness"], aspects_file=str(path))
    [score] = await scores_of(method, EXAMPLE)
    assert (asked, [stage(request) for request in model.requests]) == (1, ["ratings", "target"])
    assert [(item["text"], item["value"]) for item in score.evidence] == [
        ("Wit", 3), ("Cohesive devices", 2), ("Conciseness", 1)
    ]  # fmt: skip
    assert method.signature != coascore(model, "dialogue", ["engagingness"]).signature
    problem = "no relevant aspects below 'overall'; it has some for: engagingness"
    with pytest.raises(ConfigurationError, match=problem):
        coascore(model, "dialogue", ["overall"], aspects_file=str(path))


async def test_json_answers_where_the_model_is_known_to_give_them():
    def reply(request):
        if stage(request) == "chain":
            return CHAIN
        properties = request.json_schema["properties"]
        if stage(request) == "ratings":
            assert list(properties) == ["logical_flow", "cohesive_devices", "conciseness"]
            return '{"logical_flow": 4, "cohesive_devices": 2, "conciseness": 3}'
        return '{"reason": "fine", "score": 5}'

    [score] = await scores_of(coascore(ScriptedModel(reply)), EXAMPLE)
    assert score.value == 5
    assert [item["value"] for item in score.evidence] == [4, 2, 3]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"aspects_count": 5}, "n_aspects"),
        ({"n_aspects": 0}, "option n_aspects"),
        ({"variant": "best"}, "option variant"),
        ({"n_aspects": 5, "variant": "inter"}, r"n_aspects.*has no effect.*leave it out"),
        ({"n_aspects": 5, "aspects_file": "chains"}, r"n_aspects.*has no effect.*leave it out"),
        ({"variant": "inter", "aspects_file": "x.toml"}, "aspects_file=x.toml has no effect"),
        ({"aspects_file": "x.toml"}, r"file x\.toml does not exist"),
    ],
)
async def test_options_that_do_not_fit_are_refused(options, problem):
    with pytest.raises(ConfigurationError, match=problem):
        coascore(judge(), **options)


async def test_a_source_that_was_cut_is_reported_for_both_stages():
    def reply(request):
        text = {"chain": CHAIN, "ratings": RATINGS, "target": "It flows. Score: 4"}[stage(request)]
        cut = {"chain": 0, "ratings": 9, "target": 7}[stage(request)]
        return Response(samples=(Sample(text=text),), truncated_tokens=cut)

    model = ScriptedModel(reply, capabilities=NO_JSON)
    [score] = await scores_of(coascore(model), EXAMPLE)
    assert [request.truncatable for request in model.requests] == [None, *[EXAMPLE.source] * 2]
    cut = [piece["truncated_tokens"] for piece in score.evidence if "truncated_tokens" in piece]
    assert cut == [9, 7]
