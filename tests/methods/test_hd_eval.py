"""HD-Eval's judging side by hand: every node rated with its parent in view, and a branch
averaged."""

import re

import pytest

from tests.dry_answers import DryAnswers
from tests.methods.judging import scores_of
from textassay.methods import build
from textassay.methods.hd_eval import HDEvalOptions, decompose_task
from textassay.methods.library import tasks, trees
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, ServerFailed
from textassay.runtime.messages import Example, Failure
from textassay.runtime.model import Capabilities, Sample

EXAMPLE = Example(
    id="x",
    output="Right, the cat sat.",
    source="A: cat?\nB: A cat sat on a mat.",
    context="Cats sit.",
)
METRIC = re.compile(r"using the metric (.+)\.\n")
ABOVE = re.compile(r"Specifically, to evaluate (.+), we would like")
TREE = """
[[aspects]]
name = "coherence"
definition = "whether it holds together."
[[aspects]]
name = "Logic"
parent = "coherence"
definition = "whether it follows."
[[aspects]]
name = "Order"
parent = "logic"
definition = "whether first things come first."
[[aspects]]
name = "fluency"
definition = "whether it reads well."
scale = [1, 3]
"""
RATINGS = {"coherence": 5, "Logic": 2, "Order": 2, "fluency": 4}


def is_decomposition(request):
    return "fine-grained evaluation critics" in request.text


def judge(ratings=RATINGS, parts="1. Left: what is left.\n2. Right: what is right."):
    def reply(request):
        if is_decomposition(request):
            return parts(request) if callable(parts) else parts
        said = ratings[METRIC.search(request.text)[1]]
        return said if isinstance(said, str | Sample | Exception) else f"{said}\nReasoning: so."

    return ScriptedModel(reply, name="judge", capabilities=Capabilities(n=True))


@pytest.fixture
def tree_file(tmp_path):
    path = tmp_path / "tree.toml"
    path.write_text(TREE, encoding="utf-8")
    return str(path)


def hd_eval(model, tree, task="summarization", aspects=None, **options):
    return build("hd-eval", model, task=task, aspects=aspects, options={"tree": tree} | options)


async def test_a_branch_is_averaged_over_all_its_nodes(tree_file):
    model = judge()
    coherence, fluency = await scores_of(hd_eval(model, tree_file), EXAMPLE)
    assert (coherence.aspect, coherence.value, coherence.how) == ("coherence", 3, "fused")
    # 1-5 whatever people used
    assert (fluency.value, fluency.scale, coherence.scale) == (4, (1, 5), (1, 5))
    assert coherence.evidence[2] == {
        "text": "Order", "id": "coherence/logic/order", "value": 2, "outcome": "scored",
        "scale": [1, 5], "explanation": "2\nReasoning: so.",
    }  # fmt: skip
    ids = ["coherence", "coherence/logic", "coherence/logic/order"]
    assert [item["id"] for item in coherence.evidence] == ids
    assert (coherence.usage.calls, fluency.usage.calls) == (3, 1)
    assert len(model.requests) == 4


async def test_every_node_is_asked_with_its_parent_and_the_papers_sampling(tree_file):
    model = judge()
    await scores_of(hd_eval(model, tree_file), EXAMPLE)
    above = {METRIC.search(r.text)[1]: ABOVE.search(r.text)[1] for r in model.requests}
    tops = dict.fromkeys(("coherence", "fluency"), "overall quality")
    assert above == {**tops, "Logic": "coherence", "Order": "logic"}
    for request in model.requests:
        assert (request.temperature, request.top_p, request.max_tokens, request.n) == (0, 1, 32, 1)
        assert request.text.endswith("then provide your reasoning for the score.\n\nScore (1-5):")
        assert "in the scale of 1 to 5, with 1 being the lowest" in request.text
        assert request.json_schema is None


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("dialogue", "Please carefully read the conversation history, corresponding fact, "
                     "generated response, and "
         "evaluate the sentence using the metric Logic."),
        ("dialogue", "Please evaluate the coherence of the given response to the conversation."),
        ("summarization", "We would like to score the following summary of a news article on its "
                          "coherence."),
        ("data-to-text", "We would like to evaluate the coherence of data-to-text, a natural "
                         "language sentence "
         "generated according to a structured data expression."),
        ("translation", "Please evaluate the coherence of the given translation."),
    ],
)  # fmt: skip
async def test_prompts_are_the_papers_figures(tree_file, task, said):
    model = judge()
    await scores_of(hd_eval(model, tree_file, task), EXAMPLE)
    assert any(said in request.text for request in model.requests)


async def test_the_published_trees_serve_their_tasks():
    for task, nodes in (("dialogue", 31), ("summarization", 25), ("data-to-text", 21)):
        model = DryAnswers()
        method = build("hd-eval", model, task=task, options={"tree": task})
        scores = await scores_of(method, EXAMPLE)
        assert [score.outcome for score in scores] == ["scored"] * len(method.aspects)
        assert sum(score.usage.calls for score in scores) == len(model.requests) == nodes
        assert sum(len(score.evidence) for score in scores) == nodes


async def test_criteria_that_no_published_tree_has_are_decomposed_by_the_model():
    model = judge(
        {"naturalness": 1, "overall quality": 3, "Left": 4, "Right": 5} | dict.fromkeys(range(9), 0)
    )
    method = build("hd-eval", model, task="dialogue", aspects=["overall"])
    [score] = await scores_of(method, EXAMPLE)
    assert score.value == 4
    assert [item["id"] for item in score.evidence] == ["overall", "overall/left", "overall/right"]
    assert sum(map(is_decomposition, model.requests)) == 1


async def test_the_model_decomposes_once_a_run_into_the_layers_asked_for():
    ratings = {"adequacy": 4, "fluency": 2, "Left": 3, "Right": 3, "More": 3}
    model = judge(ratings, "1. Left: l.\n2. Right: r.\n3. More: m.")
    method = build("hd-eval", model, task="translation", aspects=["adequacy", "fluency"],
                   options={"depth": 3, "children": 2})  # fmt: skip
    for number in range(3):
        adequacy, fluency = await scores_of(method, EXAMPLE.model_copy(update={"id": str(number)}))
        assert len(adequacy.evidence) == 7 + 3
        assert adequacy.evidence[7:] == (
            {"text": "More: m.", "problem": "surplus", "under": "adequacy"},
            {"text": "Left: l.", "problem": "the criterion itself", "under": "adequacy/left"},
            {"text": "Right: r.", "problem": "the criterion itself", "under": "adequacy/right"},
        )
    assert (adequacy.value, fluency.value) == ((4 + 3 * 6) / 7, (2 + 3 * 6) / 7)
    decompositions = [request for request in model.requests if is_decomposition(request)]
    assert len(decompositions) == 2 * 3
    assert len(model.requests) == 6 + 3 * 2 * 7
    assert "around 2 fine-grained evaluation critics" in decompositions[0].text
    assert "perform automatic evaluation on quality of translation." in decompositions[0].text


async def test_a_decomposition_that_fails_takes_down_its_own_criterion_only():
    def parts(request):
        return "Nothing to list here." if "its fluency" in request.text else "1. Left: l."

    method = build("hd-eval", judge({"adequacy": 4, "Left": 2}, parts), task="translation",
                   aspects=["adequacy", "fluency"])  # fmt: skip
    adequacy, fluency = await scores_of(method, EXAMPLE)
    assert adequacy.value == 3
    assert isinstance(fluency, Failure)
    assert (fluency.node, fluency.type) == ("tree", "MalformedResponse")
    assert "Nothing to list here" in fluency.message


async def test_a_node_without_a_rating_is_left_out_and_one_not_asked_is_an_error(
    tree_file,
):
    model = judge(RATINGS | {"Order": "well", "Logic": 4})
    coherence, _ = await scores_of(hd_eval(model, tree_file), EXAMPLE)
    assert coherence.value == 4.5
    assert (coherence.evidence[2]["value"], coherence.evidence[2]["outcome"]) == (None, "invalid")
    model = judge(RATINGS | {"Order": ServerFailed("down")})
    coherence, fluency = await scores_of(hd_eval(model, tree_file), EXAMPLE)
    assert (coherence.outcome, coherence.error.type) == ("error", "ServerFailed")
    assert coherence.evidence[2]["problem"] == "ServerFailed: down"
    assert coherence.evidence[2]["text"] == "Order"
    assert fluency.value == 4


async def test_a_score_that_is_cut_right_behind_itself_is_asked_for_with_more_room(tree_file):
    cut = Sample(text="4", finish_reason="length")
    model = judge(RATINGS | {"fluency": cut})
    await scores_of(hd_eval(model, tree_file), EXAMPLE)
    sizes = [r.max_tokens for r in model.requests if METRIC.search(r.text)[1] == "fluency"]
    assert sizes[:2] == [32, 128]


async def test_the_ratings_of_all_nodes_for_learning_from_them(tree_file):
    model = judge()
    method = hd_eval(model, tree_file, output="nodes")
    scores = await scores_of(method, EXAMPLE)
    assert {score.aspect: score.value for score in scores} == {
        "coherence": 5, "coherence/logic": 2, "coherence/logic/order": 2, "fluency": 4,
    }  # fmt: skip
    assert {score.how for score in scores} == {method.how} == {"text"}
    assert {score.signature for score in scores} == {method.signature}
    assert len(model.requests) == 4
    with pytest.raises(
        ConfigurationError, match="output=nodes needs a tree that is known beforehand; 'adequacy'"
    ):
        build("hd-eval", model, task="translation", options={"output": "nodes"})


async def test_chosen_aspects_must_be_roots_of_the_file(tree_file):
    assert [a.name for a in hd_eval(judge(), tree_file, aspects=["fluency"]).aspects] == ["fluency"]
    with pytest.raises(
        ConfigurationError, match="'relevance' is not one of its roots: coherence, fluency"
    ):
        hd_eval(judge(), tree_file, aspects=["fluency", "relevance"])


async def test_a_task_is_decomposed_into_a_file_that_can_be_edited_and_used(tmp_path):
    task = tasks.load("dialogue", ["engagingness"])
    grown = await decompose_task(judge(), task, HDEvalOptions(depth=3, children=2))
    below = ["", "/left", "/left/right", "/right", "/right/left"]
    assert [aspect.id for aspect in grown.tree] == [f"engagingness{end}" for end in below]
    assert {aspect.scale for aspect in grown.tree} == {(1, 5)}
    for name in ("tree.toml", "tree.json"):
        trees.save(grown.tree, tmp_path / name, source="decomposed by judge")
        assert trees.load(str(tmp_path / name)) == grown.tree
    path = tmp_path / "tree.toml"
    path.write_text(path.read_text().replace('"what is left."', '"what remains."'))
    model = judge({"engagingness": 3, "Left": 3, "Right": 3})
    await scores_of(hd_eval(model, str(path), "dialogue", ["engagingness"]), EXAMPLE)
    assert any("Left: what remains." in request.text for request in model.requests)


async def test_signatures_distinguish_trees_and_ways_of_growing_them(tree_file, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(TREE.replace("it follows", "all follows"), encoding="utf-8")
    model = judge()
    methods = [
        hd_eval(model, tree_file),
        hd_eval(model, str(other)),
        hd_eval(model, tree_file, output="nodes"),
        hd_eval(model, "model"),
        hd_eval(model, "model", depth=3),
        hd_eval(model, "model", children=5),
        hd_eval(model, "published"),
    ]
    assert len({method.signature for method in methods}) == len(methods)
    shown = methods[0].describe()["trees"]["coherence"]
    assert shown == ["coherence", "coherence/logic", "coherence/logic/order"]
