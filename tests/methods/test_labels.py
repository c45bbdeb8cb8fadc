"""Judges that give labels, from a task's file to what is said of their agreement with people."""

import json
import math

import pytest

from tests.cli.harness import textassay, write_lines
from tests.methods.judging import judged
from textassay import Example, ScriptedModel, evaluate, evaluate_sync
from textassay.agreement import agreement_table
from textassay.estimation import read_judged
from textassay.methods import METHODS, build
from textassay.methods.library import tasks
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Capabilities, Response, Sample, TokenLogprob

TASK = """
name = "support"
intro = "You will be given an answer of a support agent."
output_name = "Answer"
[[aspects]]
name = "right"
definition = "whether the answer is right."
labels = {pass = "all of it is right", fail = "something is wrong"}
[[aspects]]
name = "tone"
definition = "how polite it is."
labels = {rude = "it insults", plain = "neither", kind = "it is friendly"}
ordered = true
"""
REST = 'plain = "neither", kind = "it is friendly"}\nordered = true'
SEVERAL = '"{}" = ""}}\nmultiple = true'
EXAMPLE = Example(id="x", output="Press the red button.")
OF_RATINGS = [
    name
    for name, method in METHODS.items()
    if not method.labels_prompt and not method.asks_yes_or_no
]
PLAIN = Capabilities(json_schema=False, logprobs=True)


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "support.toml"
    path.write_text(TASK, encoding="utf-8")
    return str(path)


async def scores(method, model, task, aspects=None, **options):
    return await judged(method, model, EXAMPLE, task, aspects, **options)


def test_labels_that_explain_themselves_are_a_list_of_names():
    aspect = Aspect(name="tone", definition="the tone", labels=["pass", "fail"])
    assert (aspect.labels, aspect.scale) == ({"fail": "", "pass": ""}, (0.0, 1.0))
    with pytest.raises(ValueError, match="labels must differ"):
        Aspect(name="tone", definition="the tone", labels=["rude", "Rude", "polite"])
    with pytest.raises(ValueError, match="words are labels"):
        Aspect(name="tone", definition="the tone", scale=["rude", "polite"])


def test_labels_make_the_scale_and_fail_is_below_pass(task):
    right, tone = tasks.load(task).aspects
    assert (list(right.labels), right.scale) == (["fail", "pass"], (0, 1))
    assert (list(tone.labels), tone.scale) == (["rude", "plain", "kind"], (0, 2))
    assert tone.ordered


async def test_a_judge_chooses_a_label_by_its_definition(task):
    model = ScriptedModel(
        ["It is right.\nAnswer: B", "It is short.\nAnswer: A"], capabilities=PLAIN
    )
    right, tone = await scores("llm-score", model, task)
    assert (right.value, tone.value) == (1, 0)
    assert (right.evidence[0], tone.evidence[0]) == ({"text": "pass"}, {"text": "rude"})
    asked = [request.text for request in model.requests]
    assert "A. fail: something is wrong\nB. pass: all of it is right" in asked[0]
    assert "C. kind: it is friendly" in asked[1]


async def test_a_model_that_follows_schemas_may_only_give_letters_of_labels(task):
    model = ScriptedModel(
        lambda request: '{"reason": "So.", "score": "B"}',
        capabilities=Capabilities(json_schema=True),
    )
    right, tone = await scores("llm-score", model, task)
    assert (right.value, tone.value) == (1, 1)
    schemas = [request.json_schema["properties"]["score"]["enum"] for request in model.requests]
    assert schemas == [["A", "B"], ["A", "B", "C"]]


@pytest.mark.parametrize("answer", ["Perhaps", "1", "Answer: D", "It passes, and then it fails."])
async def test_an_answer_that_is_not_a_letter_of_a_label_is_asked_for_again(task, answer):
    model = ScriptedModel([answer, "Answer: A"], capabilities=PLAIN)
    (right,) = await scores("llm-score", model, task, aspects=["right"])
    assert (right.value, len(model.requests)) == (0, 2)
    assert "A, B" in model.requests[1].text


def tells(**shares):
    """A judge whose first token has these probabilities; it writes the first letter."""
    top = tuple((letter, math.log(share)) for letter, share in shares.items())
    token = TokenLogprob(token=top[0][0], logprob=top[0][1], top=top)
    sample = Sample(text=token.token, logprobs=(token,))
    return ScriptedModel(lambda request: sample, capabilities=PLAIN)


READ = {"steps": "none", "reading": "logprob"}


async def test_g_eval_weighs_labels_by_their_probabilities(task):
    (right,) = await scores("g-eval", tells(B=0.75, A=0.25), task, ["right"], **READ)
    assert right.value == pytest.approx(0.75)
    shares = [{"text": "fail", "probability": 0.25}, {"text": "pass", "probability": 0.75}]
    assert list(right.evidence) == shares


async def test_g_eval_asks_for_steps_by_the_names_and_meanings_of_labels(task):
    model = ScriptedModel(lambda request: "A", capabilities=PLAIN)
    await scores("g-eval", model, task, aspects=["tone"], n=2)
    steps = model.requests[0].text
    assert "rude: it insults\nplain: neither\nkind: it is friendly\n" in steps
    assert "(0-2)" not in steps


@pytest.mark.parametrize("method", OF_RATINGS)
def test_methods_that_give_ratings_refuse_labels(task, method):
    with pytest.raises(ConfigurationError, match="'right' has labels"):
        build(method, ScriptedModel("3"), task=task)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("ordered = true", "ordered = true\nscale = [1, 5]", "a scale or labels, not both"),
        ('{rude = "it insults", plain = "neither", kind', "{kind", "at least two labels"),
        ("plain =", "RUDE =", "differ by more than their case"),
        (REST, SEVERAL.format("a; b"), "'a; b' has a semicolon"),
        (REST, SEVERAL.format("None of these"), "what raters choose if no label applies"),
        (REST, SEVERAL.format("-rude-"), "'rude' and '-rude-' have the same name in scores"),
    ],
)
def test_labels_that_cannot_be_are_refused(task, tmp_path, old, new, problem):
    (tmp_path / "support.toml").write_text(TASK.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=problem):
        tasks.load(task)


async def test_a_run_remembers_its_labels_and_reads_those_of_people(task, tmp_path):
    rows = [
        {"id": f"r{at}", "output": f"text {at}", "human": {"right": right, "tone": tone}}
        for at, (right, tone) in enumerate([("pass", "kind"), ("fail", "rude"), ("pass", "plain")])
    ]
    data = write_lines(tmp_path / "data.jsonl", rows)
    model = ScriptedModel(lambda request: "It is so.\nAnswer: B", capabilities=PLAIN)
    run = await evaluate(data, method="llm-score", model=model, task=task, out=tmp_path / "run")
    right, tone = agreement_table(tmp_path / "run", data).labels
    assert right.agreement.labels == ("fail", "pass")
    assert right.agreement.confusion == ((0, 1), (0, 2))
    assert tone.agreement.confusion == ((0, 1, 0), (0, 1, 0), (0, 1, 0))
    assert tone.agreement.ordered
    assert [example.human["tone"] for example in run.examples()] == [2, 0, 1]
    shown = textassay("show", tmp_path / "run", "r0").out
    assert "tone  plain of rude, plain, kind  people kind" in shown


INTENT = """
[[aspects]]
name = "intent"
definition = "what the customer wants."
labels = {order = "to buy", complaint = "to complain", question = "to know"}
[[aspects]]
name = "topics"
definition = "what the answer is about."
labels = {"an invoice" = "a bill", refund = "money back"}
multiple = true
"""


@pytest.fixture
def categories(tmp_path):
    path = tmp_path / "categories.toml"
    path.write_text(TASK.split("[[aspects]]")[0] + INTENT, encoding="utf-8")
    return str(path)


async def test_samples_of_labels_without_an_order_are_voted_on(categories):
    answers = Response(samples=tuple(Sample(text=f"Answer: {x}") for x in "ACC"))
    model = ScriptedModel([answers], capabilities=PLAIN)
    (intent,) = await scores("llm-score", model, categories, ["intent"], n=3)
    assert (intent.value, intent.scale) == (2, (0, 2))
    assert intent.evidence[0] == {"text": "question", "votes": {"order": 1, "question": 2}}


async def test_g_eval_takes_the_most_probable_of_labels_without_an_order(categories):
    model = tells(A=0.45, C=0.4, B=0.15)
    (intent,) = await scores("g-eval", model, categories, ["intent"], **READ)
    assert intent.value == 0  # their mean is nearest to 1
    assert [one["probability"] for one in intent.evidence] == [0.45, 0.15, 0.4]


async def test_each_of_several_labels_is_judged_by_itself(categories):
    def answer(request):
        return "Answer: B" if "'refund'" in request.text else "Answer: A"

    model = ScriptedModel(answer, capabilities=PLAIN)
    invoice, refund = await scores("llm-score", model, categories, aspects=["topics"])
    assert (invoice.aspect, refund.aspect) == ("topics/an-invoice", "topics/refund")
    assert (invoice.value, refund.value) == (0, 1)
    assert "the label 'refund' applies (money back)" in model.requests[1].text
    assert "what the answer is about." in model.requests[1].text


@pytest.mark.parametrize(
    ("said", "value", "outcome"),
    [("BBA", 1, "scored"), ("CAC", 2, "scored"), ("ABC", None, "invalid")],
)
async def test_a_jury_votes_on_labels(categories, said, value, outcome):
    jurors = {
        f"juror{at}": ScriptedModel([f"Answer: {letter}"], name=f"j{at}", capabilities=PLAIN)
        for at, letter in enumerate(said)
    }
    (intent,) = await scores("jury", jurors, categories, aspects=["intent"])
    assert (intent.value, intent.outcome) == (value, outcome)
    assert [one["text"] for one in intent.evidence if "votes" not in one] == ["j0", "j1", "j2"]
    if value is None:
        assert "1 for order, 1 for complaint, 1 for question" in intent.error.message


async def test_two_jurors_do_not_vote(categories):
    """Wherever they differ there is no winner; their ratings can still be kept to learn from."""
    jurors = {
        f"juror{at}": ScriptedModel(lambda _: "Answer: A", name=f"j{at}", capabilities=PLAIN)
        for at in range(2)
    }
    for aspect in ("intent", "topics"):
        with pytest.raises(ConfigurationError, match="two jurors cannot vote"):
            await scores("jury", jurors, categories, aspects=[aspect])
    kept = await scores("jury", jurors, categories, aspects=["intent"], output="jurors")
    assert [one.aspect for one in kept] == ["intent/j0", "intent/j1"]
    (alone,) = await scores("jury", jurors["juror0"], categories, aspects=["intent"])
    assert alone.value == 0


async def test_decomp_eval_answers_a_label_by_its_question(tmp_path):
    path = tmp_path / "yes.toml"
    question = 'question = "Is all of it right?"\nlabels = {pass'
    path.write_text(TASK.replace("labels = {pass", question), encoding="utf-8")
    answers = Response(samples=tuple(Sample(text=x) for x in ("Yes", "Yes", "No", "Yes") * 5))
    able = PLAIN.model_copy(update={"thinks": False})
    model = ScriptedModel([answers], capabilities=able)
    options = {"subquestions": False}
    (right,) = await scores("decomp-eval", model, str(path), ["right"], **options)
    assert (right.value, right.scale) == (0.75, (0, 1))
    assert "Is all of it right?" in model.requests[0].text


@pytest.mark.parametrize(
    ("method", "aspect", "options", "problem"),
    [
        ("decomp-eval", "intent", {}, "asks yes or no, which fits two of them"),
        ("claims", "topics", {}, "'topics' has labels, and claims gives ratings"),
        ("jury", "intent", {"combine": "mean"}, "'intent' have no order, and so no mean"),
    ],
)
def test_methods_that_cannot_give_labels_are_refused_before_any_cost(
    categories, method, aspect, options, problem
):
    with pytest.raises(ConfigurationError, match=problem):
        build(method, ScriptedModel("A"), task=categories, aspects=[aspect], options=options)


@pytest.mark.parametrize("labels", [["F", "D", "C", "B", "A"], ["b", "a"], ["none", "A", "B"]])
def test_labels_that_are_letters_of_others_are_refused(labels):
    """The answer A would mean two of them."""
    grade = Aspect(name="grade", definition="the grade", labels=labels)
    with pytest.raises(ConfigurationError, match=r"may be this label or the letter of"):
        build("llm-score", ScriptedModel("A"), task="summarization", aspects=[grade])
    in_order = Aspect(name="grade", definition="the grade", labels=["A", "B", "C", "D", "F"])
    build("llm-score", ScriptedModel("A"), task="summarization", aspects=[in_order])


def test_decomp_eval_needs_a_question_to_which_yes_means_a_label(task):
    with pytest.raises(ConfigurationError, match="'question' to which yes means 'pass'"):
        build("decomp-eval", ScriptedModel("Yes"), task=task, aspects=["right"])


async def test_a_run_of_categories_has_no_mean_of_them_and_compares_sets(categories, tmp_path):
    rows = [
        {"id": f"r{at}", "output": f"text {at}", "human": {"intent": intent, "topics": topics}}
        for at, (intent, topics) in enumerate(
            [("order", ["refund"]), ("Question", []), ("complaint", ["refund", "an invoice"])]
        )
    ]
    data = write_lines(tmp_path / "data.jsonl", rows)
    model = ScriptedModel(lambda request: "It is so.\nAnswer: B", capabilities=PLAIN)
    out = tmp_path / "run"
    run = await evaluate(data, method="llm-score", model=model, task=categories, out=out)
    summary = json.loads((out / "summary.json").read_text())["aspects"]
    assert summary == run.summary()["aspects"]
    assert summary["intent"] == {"n": 3, "mean": None}
    assert summary["topics/refund"] == {"n": 3, "mean": 1}
    table = agreement_table(out, data)
    assert [row.aspect for row in table.labels] == ["intent", "topics/an-invoice", "topics/refund"]
    assert table.labels[0].agreement.confusion == ((0, 1, 0), (0, 1, 0), (0, 1, 0))
    (sets,) = table.sets
    assert (sets.aspect, sets.agreement.labels) == ("topics", ("an invoice", "refund"))
    assert sets.agreement.measures["jaccard"].value == pytest.approx((0.5 + 0 + 1) / 3)
    shares = read_judged(out)
    assert {name: sum(one.values.values()) for name, one in shares.items()} == {
        "intent/order": 0, "intent/complaint": 3, "intent/question": 0,
        "topics/an-invoice": 3, "topics/refund": 3,
    }  # fmt: skip


def test_labels_without_an_order_have_agreement_and_shares_and_no_mean(categories, tmp_path):
    rows = [
        {"id": f"r{at}", "output": f"Text of {'MN'[at % 2]}.", "system": "MN"[at % 2],
         "group": f"g{at // 2}", "human": {"intent": intent}}
        for at, intent in enumerate(["order", "question", "complaint"] * 8)
    ]  # fmt: skip
    out, page = tmp_path / "run", tmp_path / "report.html"
    data = write_lines(tmp_path / "data.jsonl", rows)
    model = ScriptedModel(
        lambda request: f"Answer: {'A' if 'Text of M.' in request.text else 'B'}",
        capabilities=PLAIN,
    )
    options = {"task": categories, "aspects": ["intent"], "out": out}
    evaluate_sync(data, method="llm-score", model=model, **options)
    textassay("report", out, "--out", page).ok()
    shown = page.read_text(encoding="utf-8")
    there = [words in shown for words in ("order", "#cell/", "length in words", "the best of")]
    assert there == [True, True, False, False]
    estimated = textassay("estimate", out).ok()
    assert "left out, since judge or people gave the label" in estimated.err
    assert estimated.out.count("intent/") >= 2


@pytest.mark.parametrize("names", [["red", "blue"], ["red", "blue", "green"]])
def test_runs_with_labels_in_another_order_are_not_compared(names, tmp_path):
    """Numbers of labels are positions: the second of one run is the first of the other."""
    rows = [
        {"id": f"r{at}", "output": f"It is {names[at % len(names)]}.", "group": f"g{at // 2}",
         "human": {"color": names[at % len(names)]}}
        for at in range(24)
    ]  # fmt: skip
    data, runs = write_lines(tmp_path / "data.jsonl", rows), []
    for order in (names, [*reversed(names)], names):
        task = tmp_path / f"task-{len(runs)}.toml"
        labels = ", ".join(f'{name} = "it is {name}"' for name in order)
        task.write_text(
            'name = "t"\nintro = "A text."\noutput_name = "Text"\n[[aspects]]\nname = "color"\n'
            f'definition = "the color"\nlabels = {{{labels}}}\n'
        )
        letters = {f"It is {name}.": "ABC"[at] for at, name in enumerate(order)}
        model = ScriptedModel(
            lambda request, letters=letters: next(
                f"Answer: {letter}" for text, letter in letters.items() if text in request.text
            ),
            capabilities=PLAIN,
        )
        runs.append(tmp_path / f"run-{len(runs)}")
        evaluate_sync(data, method="llm-score", model=model, task=str(task), out=runs[-1])
    first, other, same = runs
    page = tmp_path / "report.html"
    for command, *out in (("compare",), ("report", "--out", page)):
        refused = textassay(command, first, other, *out)
        assert (refused.code, "the labels of 'color' are" in refused.err) == (2, True)
        textassay(command, first, same, *out).ok()
    assert "which run agrees better with people on color" in page.read_text(encoding="utf-8")
