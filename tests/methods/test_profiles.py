"""Profiles: what a model is asked word for word by the example profile, how ratings are read, the
profile of the embedded model, and files of one's own."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.methods.judging import CHOICES, scores_of
from textassay.agents.prompt_template import NO_PROFILE, Profile, plain_texts
from textassay.methods import METHODS, build
from textassay.methods.decomp_eval import read_questions
from textassay.methods.judging import PER_ASPECT, RatingMethod
from textassay.methods.library import tasks
from textassay.methods.method import RatingOptions
from textassay.prompts import PROFILES
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError, ConfigurationError, UnknownName
from textassay.runtime.graph import Node
from textassay.runtime.messages import Example
from textassay.runtime.model import ChoicesRequest, ContinuationRequest, TokenLogprob

NEWS = Example(
    id="n", source="Arden's council\nVOTED to repair.", output="It voted . Costs rise .",
    references=("Yes.",),
)  # fmt: skip
CHAT = Example(
    id="c", source="A: Seen it?\nB: The octopus!", context="It has\nthree hearts.",
    output="B: Three hearts!",
)  # fmt: skip
DATA = Example(id="d", source="inform(name='Inn')", output="The Inn.")
RATINGS = {"1": 0.1, "2": 0.1, "3": 0.2, "4": 0.4, "5": 0.1}


def chooser(request):
    known = RATINGS if "1" in request.choices else {"yes": 0.6, "no": 0.2}
    return {label: math.log(known[label]) if label in known else None for label in request.choices}


def model(name="small", **given):
    spoken = {
        "choices": chooser,
        "continuation": lambda r: [TokenLogprob(token=r.continuation, logprob=-1.0)],
    }
    return ScriptedModel(name=name, **(spoken | given))


def judged(method, task, example, judge=None, aspects=None, tools=(), **options):
    judge, options = judge or model(), {"profile": CHOICES, **options}
    made = build(method, judge, task=task, aspects=aspects, options=options, tools=tools)
    scores = asyncio.run(scores_of(made, example))
    return judge, made, scores


@pytest.mark.parametrize(
    ("task", "example", "aspect", "prompt"),
    [
        (
            "summarization", NEWS, "coherence",
            "article: arden's council voted to repair.\nsummary: it voted. costs rise.\n"
            "rate coherence, 1 to 5.\nscore:",
        ),
        (
            "dialogue", CHAT, "naturalness",
            "knowledge: it has three hearts.\ndialogue:\n- seen it?\n- the octopus!\n"
            "response: three hearts!\n"
            "rate naturalness, 1 to 5.\nscore:",
        ),
        ("data-to-text", DATA, "quality", "data: inform(name='inn')\ntext: the inn.\n"
            "rate quality, 1 to 5.\nscore:"),
        ("translation", DATA, "overall", "article: inform(name='inn')\ntext: the inn.\n"
            "rate overall, 1 to 5.\nscore:"),
    ],
)  # fmt: skip
def test_a_model_that_continues_text_is_asked_for_a_rating(task, example, aspect, prompt):
    judge, made, [score] = judged("g-eval", task, example, aspects=[aspect])
    [request] = judge.requests
    assert isinstance(request, ChoicesRequest)
    assert (request.prompt, request.messages) == (prompt, ())
    assert request.choices == {label: (f" {label}", label) for label in "12345"}
    assert request.truncatable is not None
    assert request.truncatable in prompt
    assert (score.outcome, score.how, score.mass) == ("scored", "logprob", pytest.approx(0.9))
    on_five = (1 * 0.1 + 2 * 0.1 + 3 * 0.2 + 4 * 0.4 + 5 * 0.1) / 0.9
    low, high = made.aspects[0].scale
    assert score.scale == (low, high)
    assert score.value == pytest.approx(low + (on_five - 1) / 4 * (high - low))
    assert [piece["text"] for piece in score.evidence] == [*"12345"]


def test_decomp_eval_asks_sentence_by_sentence_and_then_about_the_whole():
    judge, _, [score] = judged("decomp-eval", "summarization", NEWS, aspects=["coherence"])
    texts = "article: arden's council voted to repair.\nsummary: it voted. costs rise.\n"
    first = "sentence: it voted.\nquestion: does this sentence follow from the one before?\nanswer:"
    second = (
        "sentence: costs rise.\nquestion: does this sentence follow from the one before?\nanswer:"
    )
    whole = "question: is this summary coherent and well organized?\nanswer:"
    assert [r.prompt for r in judge.requests] == [
        texts + first,
        f"{texts}{first} yes\n{second}",
        f"{texts}{first} yes\n{second} yes\n{whole}",
    ]
    assert score.value == pytest.approx(0.75)
    assert score.evidence[0]["text"] == first.removesuffix("\nanswer:")


def test_decomp_eval_has_a_question_for_any_aspect(tmp_path):
    task = tmp_path / "story.toml"
    task.write_text(
        'intro = "A story."\noutput_name = "Story"\n[[aspects]]\nname = "Suspense"\n'
        'definition = "d"\n'
    )
    judge, _, _ = judged("decomp-eval", str(task), Example(output="He ran."), subquestions=False)
    assert (
        judge.requests[0].prompt
        == "article:\ntext: he ran.\nquestion: is this story suspense?\nanswer:"
    )


@pytest.mark.parametrize(
    "task", ["summarization", "dialogue", "data-to-text", "translation", "general"]
)
def test_every_built_in_aspect_has_a_question_and_a_chain_of_its_own(task):
    loaded = tasks.load(task)
    questions, _ = read_questions(f"{CHOICES}/questions.toml")
    assert all(questions.forms(loaded, aspect) for aspect in loaded.aspects)
    build(
        "coascore", model(), task=task, options={"profile": CHOICES}
    )  # a target without a chain is an error


def test_gptscore_continues_the_prompt_the_model_knows():
    judge, _, [score] = judged("gptscore", "dialogue", CHAT, aspects=["coherence"], pmi=True)
    given, alone = judge.requests
    assert isinstance(given, ContinuationRequest)
    talk = "- seen it?\n- the octopus!"
    assert given.prompt == f"knowledge: it has three hearts.\ndialogue:\n{talk}\nresponse:"
    assert given.continuation == alone.continuation == " three hearts!"
    assert (given.truncatable, alone.prompt) == (talk, "dialogue:\nresponse:")
    assert score.value == 0
    for task, words in (("summarization", "article:\nsummary:"), ("data-to-text", "data:\ntext:")):
        aspect = tasks.load(task).aspects[0].name
        judge, *_ = judged("gptscore", task, NEWS, aspects=[aspect], pmi=True)
        assert judge.requests[1].prompt == words


def test_gptscores_boolean_question_where_it_is_wanted():
    judge, *_ = judged("gptscore", "dialogue", CHAT, aspects=["engagingness"], scored="yes")
    [request] = judge.requests
    assert request.prompt.endswith(
        "response: three hearts!\nquestion: are the responses of ai engaging?\nanswer:"
    )
    assert request.continuation == " yes"


def test_coascore_rates_its_chain_one_by_one_and_shows_the_ratings():
    judge, _, [score] = judged("coascore", "summarization", NEWS, aspects=["coherence"])
    texts = "article: arden's council voted to repair.\nsummary: it voted. costs rise.\n"
    assert [r.prompt.removeprefix(texts) for r in judge.requests] == [
        "rate fluency, 1 to 5.\nscore:",
        "rate relevance, 1 to 5.\nscore:",
        "rate fluency, 1 to 5.\nscore: 3\nrate relevance, 1 to 5.\nscore: 3\n"
        "rate coherence, 1 to 5.\nscore:",
    ]
    assert (score.outcome, score.usage.calls) == ("scored", 3)
    judge, *_ = judged("coascore", "summarization", NEWS, aspects=["coherence"], variant="inter")
    assert len(judge.requests) == 4


def test_fusion_eval_averages_tools_and_a_direct_rating():
    judge, made, [score] = judged(
        "fusion-eval", "summarization", NEWS, aspects=["fluency"], tools=["coverage"]
    )
    assert (made.options.fusion, made.options.direct, len(judge.requests)) == ("avg", True, 1)
    assert [piece["text"] for piece in score.evidence] == ["coverage", "direct"]


def test_hd_eval_grows_nothing():
    judge, _, scores = judged("hd-eval", "translation", NEWS)
    assert [r.prompt.splitlines()[-2] for r in judge.requests] == [
        f"rate {s.aspect}, 1 to 5." for s in scores
    ]


@pytest.mark.parametrize(
    ("method", "options", "named"),
    [
        ("g-eval", {"steps": "auto"}, "steps=none"),
        ("hd-eval", {"tree": "model", "depth": 2}, "'tree': 'FILE'"),
        ("fusion-eval", {"fusion": "llm"}, "fusion=avg"),
        ("fusion-eval", {"fusion": "llmsel"}, "'plan': 'FILE'"),
        ("g-eval", {"n": 20}, "leave out n="),
        ("jury", {"form": "letters"}, "asks for numbers"),
        ("llm-score", {}, "same call as g-eval"),
        ("llm-score-cot", {}, "no chain of thought.* same call as g-eval"),
        ("g-eval", {"steps": "task"}, "shows no evaluation steps"),
        ("g-eval", {"temperature": 0.7}, "no temperature changes"),
        ("g-eval", {"prompt_layout": "shared-prefix"}, "one order"),
        ("checklist", {"answers": "quoted"}, "cannot copy a passage"),
        ("claims", {"verify": "quoted"}, "cannot copy a passage"),
        ("claims", {"split": "model"}, "take .*'split': 'sentences'"),
        ("coascore", {"n_aspects": 5}, "names no relevant aspects"),
        ("coascore", {"variant": "no-scores"}, "same call as g-eval"),
        ("decomp-eval", {"instruction": False}, "no instruction"),
        ("decomp-eval", {"question_first": True}, "one order"),
        ("decomp-eval", {"ask": "chat"}, "knows no chat"),
        ("gptscore", {"instruction": True}, "no instruction"),
        ("hd-eval", {"children": 3}, "children=3 has no effect: every criterion"),
        ("hd-eval", {"tree": "model"}, "refuses tree=model: .* leave out tree="),
        ("fusion-eval", {"plan": "none"}, r"plan=\w+ has no effect: fusion=avg"),
        ("fusion-eval", {"plan": "auto"}, r"plan=\w+ has no effect: fusion=avg"),
    ],
)
def test_abilities_that_the_model_lacks_are_refused_before_anything_is_asked(
    method, options, named
):
    tools = ["coverage"] if "fusion" in method else ()
    asked = {"profile": CHOICES, **options}
    with pytest.raises(ConfigurationError, match=named):
        build(method, model(), task="summarization", options=asked, tools=tools)


def test_another_model_may_write_what_the_judge_cannot():
    writer = ScriptedModel(["1. Order: how its parts follow."] * 2, name="writer")
    models = {"": model(), "decomposer": writer}
    options = {"tree": "model", "depth": 2, "children": 1, "profile": CHOICES}
    made = build("hd-eval", models, task="summarization", aspects=["fluency"], options=options)
    [score] = asyncio.run(scores_of(made, NEWS))
    assert (score.outcome, len(writer.requests)) == ("scored", 1)
    assert [piece["id"] for piece in score.evidence] == ["fluency", "fluency/order"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("g-eval", {"steps": "none", "temperature": 0, "prompt_layout": "paper", "seed": 1}),
        ("coascore", {"variant": "random"}),
        ("decomp-eval", {"subquestions": False, "ask": "plain"}),
        ("g-eval", {"steps": "task", "profile": "none", "n": 2}),
    ],
)
def test_what_has_an_effect_or_says_what_holds_anyway_is_taken(method, options):
    judge = model() if "profile" not in options else ScriptedModel(["3"])
    _, _, [score] = judged(method, "summarization", NEWS, judge, ["coherence"], **options)
    assert (score.outcome, score.aspect) == ("scored", "coherence")


def test_no_two_methods_make_the_same_call():
    """What is asked differs between all methods that the profile takes."""
    asked = {}
    for method in ("g-eval", "coascore", "decomp-eval", "gptscore", "hd-eval", "checklist"):
        judge, *_ = judged(method, "summarization", NEWS, aspects=["coherence"])
        asked[method] = tuple(request.prompt for request in judge.requests)
    assert len(set(asked.values())) == len(asked)


def test_profiles_distinguish_scores_and_are_in_the_record():
    asked = {"options": {"steps": "none", "profile": CHOICES}, "task": "summarization"}
    chosen = build("g-eval", model(), **asked)
    options = {"steps": "none", "profile": "none"}
    none = build("g-eval", model(), task="summarization", options=options)
    auto = build("g-eval", model(), task="summarization", options={"steps": "none"})
    assert chosen.describe()["profile"]["name"] == "choices"
    assert auto.describe()["profile"] is none.describe()["profile"] is None
    assert auto.describe()["prompts"] == none.describe()["prompts"] != chosen.describe()["prompts"]
    assert chosen.signature != none.signature


def test_the_embedded_model_is_asked_how_likely_a_text_is_and_by_the_papers_prompt():
    judge, made, [score] = judged(
        "gptscore", "summarization", NEWS, model("embedded"), ["coherence"], profile="auto"
    )
    [request] = judge.requests
    other, *_ = judged("gptscore", "summarization", NEWS, None, ["coherence"], profile="none")
    assert request.prompt == other.requests[0].prompt
    assert made.describe()["profile"]["name"] == "embedded"
    assert (score.outcome, score.how) == ("scored", "loglikelihood")
    # in the paper a dialogue is asked about, and "Yes" is scored
    judge, *_ = judged(
        "gptscore", "dialogue", CHAT, model("embedded"), ["coherence"], profile="auto"
    )
    assert [r.continuation for r in judge.requests] == [" B: Three hearts!"]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "gptscore"])
def test_the_embedded_model_refuses_every_other_method_with_the_reason(method):
    tools = ["coverage"] if "fusion" in method else ()
    with pytest.raises(ConfigurationError, match=r"135 million parameters.*it is for gptscore"):
        build(method, model("embedded"), task="summarization", tools=tools)


def test_the_embedded_model_is_not_asked_for_yes_or_no():
    with pytest.raises(ConfigurationError, match="refuses scored=yes: whether so small a model"):
        build("gptscore", model("embedded"), task="dialogue", options={"scored": "yes"})


def test_labels_that_are_not_reported():
    """A server names the likeliest tokens only; without a label among them there is no rating."""
    unsure = model(choices=lambda r: dict.fromkeys(r.choices) | {"4": math.log(0.05)})
    _, _, [score] = judged("g-eval", "summarization", NEWS, unsure, ["fluency"])
    assert (score.outcome, score.error.type, score.value) == ("invalid", "NoLabelMass", None)
    sure = model(choices=lambda r: dict.fromkeys(r.choices) | {"4": math.log(0.5)})
    assert judged("g-eval", "summarization", NEWS, sure, ["fluency"])[2][0].value == 4
    with pytest.raises(CapabilityError):
        build("g-eval", ScriptedModel(["3"]), task="summarization", options={"profile": CHOICES})


OWN = """
format = 1
ask = "chat"
ratings = "choices"

[prompts]
llm_score = "rate.jinja"
llm_score_cot = "rate.jinja"
coascore = "rate.jinja"

[options.coascore]
aspects_file = "{task}.toml"
variant = "inter"
"""


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "profile.toml").write_text(OWN)
    (folder / "rate.jinja").write_text(
        '{# ours #}{% include "_head.jinja" %} {{ bare.output }} | {{ aspect.name }}:'
    )
    (folder / "_head.jinja").write_text("Text of {{ task.name }}:")
    return folder


def test_a_profile_of_ones_own(own):
    judge, made, [score] = judged(
        "llm-score", "dialogue", CHAT, model("local"), ["naturalness"], profile=str(own)
    )
    [request] = judge.requests
    assert [m.content for m in request.messages] == [
        "Text of dialogue: B: Three hearts! | naturalness:"
    ]
    assert [*request.choices] == ["1", "2", "3"]  # the aspect's own scale
    assert score.outcome == "scored"
    assert made.describe()["profile"]["name"] == "mine"
    before = made.signature
    (own / "_head.jinja").with_name("profile.toml").write_text(OWN + "\n# changed\n")
    assert (
        build("llm-score", model("local"), task="dialogue", options={"profile": str(own)}).signature
        != before
    )
    judge, *_ = judged(
        "coascore", "dialogue", CHAT, model("local"), ["naturalness"], profile=str(own)
    )
    assert len(judge.requests) == 6


def test_refusals_and_options_are_in_files_of_their_own(own):
    """Options of a method count in its digest alone; a refusal in none, and names its reason."""
    chosen = {"task": "dialogue", "options": {"profile": str(own)}}
    before = {
        name: build(name, model("local"), **chosen).signature for name in ("llm-score", "jury")
    }
    (own / "jury.toml").write_text('combine = "median"\n')
    (own / "refused.toml").write_text('[jury]\nparse_retries = "nothing is parsed"\n')
    made = build("jury", model("local"), **chosen)
    assert made.options.combine == "median"
    assert made.signature != before["jury"]
    assert build("llm-score", model("local"), **chosen).signature == before["llm-score"]
    given = {"profile": str(own), "parse_retries": 3}
    with pytest.raises(ConfigurationError, match="refuses parse_retries=3: nothing is parsed"):
        build("jury", model("local"), task="dialogue", options=given)
    (own / "refused.toml").write_text("jury = 3\n")
    with pytest.raises(ConfigurationError, match=r"refused\.jury: Input should be a valid dict"):
        build("jury", model("local"), **chosen)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("format = 1", "format = 2", "format 2"),
        ('ask = "chat"', 'ask = "loud"', "ask"),
        ('ask = "chat"', 'asks = "chat"', "asks"),
        ('ask = "chat"', 'name = "x"', "name"),
        ('llm_score = "rate.jinja"', 'llm_scores = "rate.jinja"', "unknown prompt 'llm_scores'"),
        ('llm_score = "rate.jinja"', 'llm_score = "none.jinja"', "no prompt file"),
        ('llm_score = "rate.jinja"\n', "", "'llm_score' asks for words first"),
        ('variant = "inter"', "colour = 1", r"\[options.coascore\].*colour"),
        ("[prompts]", "[prompts", "cannot be read"),
        ('ask = "chat"', "refused = {}", "refused: unknown key"),
    ],
)
def test_the_fault_of_a_profile_is_named(own, old, new, named):
    (own / "profile.toml").write_text(OWN.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=named):
        build("coascore", model("local"), task="dialogue", options={"profile": str(own)})


@pytest.mark.parametrize("prompt", ["llm_score", "llm_score_cot"])
def test_probabilities_are_not_read_after_a_prompt_that_asks_for_words(own, prompt):
    """A label in the place of a reason means nothing; methods whose prompts fit are still run."""
    kept = [line for line in OWN.splitlines() if not line.startswith(f"{prompt} =")]
    (own / "profile.toml").write_text("\n".join(kept))
    chosen = {"task": "dialogue", "options": {"profile": str(own)}}
    refused, taken = {
        "llm_score": (("llm-score", "jury", "coascore"), "llm-score-cot"),
        "llm_score_cot": (("llm-score-cot",), "llm-score"),
    }[prompt]
    for name in refused:
        with pytest.raises(ConfigurationError, match=f"{prompt!r} asks for words first; name a"):
            build(name, model("local"), **chosen)
    for name in (taken, "g-eval"):
        judge, _, [score] = judged(
            name,
            "dialogue",
            CHAT,
            model("local"),
            ["naturalness"],
            profile=str(own),
            **({"steps": "none"} if name == "g-eval" else {}),
        )
        assert (score.outcome, score.how, len(judge.requests)) == ("scored", "logprob", 1)


class Listing(RatingMethod):
    """A method of another package, whose prompt asks for problems before the rating."""

    name = "listing"
    prompt = "checklist_questions"

    def nodes(self):
        return [Node("scores", self.scorer, **PER_ASPECT)]


def test_a_new_method_is_refused_by_a_profile_that_reads_probabilities():
    """Unless it says that its prompt ends in the rating; a profile cannot replace that prompt."""

    class Ending(Listing):
        ends_in_rating = True

    options = RatingOptions(profile=CHOICES)
    task = tasks.load("dialogue")
    with pytest.raises(ConfigurationError, match="asks for words first; use another profile"):
        Listing(model(), task, options)
    assert Ending(model(), task, options).how == "logprob"


def test_unknown_profiles():
    with pytest.raises(UnknownName, match="embedded"):
        build("llm-score", model(), options={"profile": "embeded"})
    assert PROFILES == ("embedded", "paper")


DIALOGUE, SUMMARIZATION = tasks.load("dialogue"), tasks.load("summarization")
JOINED = Profile(name="p", text="simplify", lines="joined", conversations=("dialogue",))


def test_without_a_profile_the_example_is_the_same():
    example = Example(output="A\nB", source="C")
    assert NO_PROFILE.prepare(example, DIALOGUE) is example


def test_texts_are_simplified_and_put_on_one_line():
    example = Example(
        id="x",
        output="The  Cat\nsat .",
        source="A “cat”\n\nsat.",
        references=("It\nSat",),
        context="Do n't",
    )
    prepared = JOINED.prepare(example, SUMMARIZATION)
    assert plain_texts(prepared) == {
        "source": 'a "cat" sat.',
        "context": "don't",
        "output": "the cat sat.",
    }
    assert (prepared.id, prepared.references) == ("x", ("it sat",))


@pytest.mark.parametrize(
    ("source", "output", "shown", "answer"),
    [
        ("A: Hi!\n\nB: Hello", "A: Bye", "- hi!\n- hello", "bye"),
        ("Anna: Hi!\nSpeaker 2: Hello", "Hm: bye", "- hi!\n- hello", "hm: bye"),
        ("Note: a film\nI saw it", "Note: good", "- note: a film\n- i saw it", "note: good"),
        ("A: hi at 10:30\nB: see http://x", "ok", "- hi at 10:30\n- see http://x", "ok"),
    ],
)
def test_a_conversation_is_shown_turn_by_turn(source, output, shown, answer):
    """Labels go where every turn has one, so that no first word before a colon is lost."""
    prepared = JOINED.prepare(Example(output=output, source=source), DIALOGUE)
    assert (prepared.source, prepared.output) == (shown, answer)


@given(st.text(), st.text())
def test_no_text_can_forge_a_line_of_the_prompt(source, output):
    talk = JOINED.prepare(Example(output=output, source=source), DIALOGUE)
    assert len(talk.output.splitlines()) <= 1
    assert all(line.startswith("- ") for line in talk.source.splitlines())
    article = JOINED.prepare(Example(output=output, source=source), SUMMARIZATION)
    assert len(article.source.splitlines()) <= 1
