"""With the profile `paper`, prompts reach a server byte by byte as the papers print them; held
against their text."""

import re
from pathlib import Path

import pytest
import pytest_asyncio

from tests.benchmark_data import paper
from textassay.methods import build
from textassay.methods.library import tasks, trees
from textassay.runtime.api import connect
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Assignment, Example
from textassay.tools import tool

SOURCE, OUTPUT, REFERENCE = "The source text.", "The output text.", "The reference text."
EXAMPLE = Example(id="x", source=SOURCE, output=OUTPUT, references=(REFERENCE,))
CHAT = Example(id="c", source="User: Hi!\nSystem: Hi.\nUser: Soup?", output="System: I like soup.")
WHOLE = Example(id="w", output=f"{CHAT.source}\n{CHAT.output}")

SUMMARIES = {
    "FAC": "factuality", "COV": "coverage", "CON": "consistency", "INF": "informativeness",
    "COH": "coherence", "REL": "relevance", "FLU": "fluency",
}  # fmt: skip
TRANSLATIONS = {"ACC": "accuracy", "FLU": "fluency", "MQM": "MQM"}
SENTENCES = {"INF": "informativeness", "NAT": "naturalness", "FLU": "quality"}
TURNS = {
    "INT": "interesting", "ENG": "engaging", "UND": "understandable", "REL": "relevant",
    "SPE": "specific", "COR": "correct", "SEM": "semantically_appropriate", "FLU": "fluent",
}  # fmt: skip
DIALOGUES = {
    "COH": "coherent", "DIV": "diverse", "FLE": "flexible", "UND": "understanding",
    "INQ": "inquisitive", "CON": "consistent", "INF": "informative", "LIK": "likeable",
    "DEP": "depth", "ERR": "error_recovery",
}  # fmt: skip


class Recorded:
    """What a server received, and the scores that came of it."""

    def __init__(self, server):
        self.url, self.prompts, self.scores = server.url, [], []
        server.listener = self.listen

    def listen(self, body):
        """Keep the only text of a request: the prompt, or the content of its one message."""
        if "messages" in body:
            [message] = body["messages"]
            assert set(message) == {"role", "content"}
            self.prompts.append(message["content"])
        else:
            assert body["echo"]  # what is scored is a part of the prompt
            self.prompts.append(body["prompt"])


@pytest_asyncio.fixture
async def asked(mock_server):
    """Judge one aspect by the profile `paper`, and return what the server received."""

    async def ask(method, task, aspect, example=EXAMPLE, tools=(), **options):
        recorded = Recorded(await mock_server())
        options = {"profile": "paper", **options}
        aspects = None if aspect is None else [aspect]
        async with connect("direct/mock", api_base=recorded.url) as model:
            built = build(
                method, model, task=task, aspects=aspects, options=options, tools=list(tools)
            )
            given = Assignment(example=example, aspects=built.aspects)
            recorded.scores = await built.graph.run(given)
        return recorded

    return ask


def printed(task):
    """The prompts of GPTScore's tables 11 and 12 for a task, by the paper's code of the aspect."""
    found, name = {}, ""
    table = paper("gptscore_tables_11_12.md")
    for cell, code, prompt in re.findall(r"^\| (.*?)\| ([A-Z]{3}) \| `(.+)` \|$", table, re.M):
        name = cell.strip() or name  # a task stands in its first row alone
        if name == task:
            found[code] = prompt.replace("\\n", "\n")
    return found


def filled(pattern, given):
    """A printed prompt with the given text in its first place, and without the scored one behind
    it."""
    before, cue, rest = re.split(r"\{.+?\}", pattern)
    assert rest == ""
    return f"{before}{given}{cue}"


@pytest.mark.parametrize("code", SUMMARIES)
async def test_gptscores_prompts_for_summaries(code, asked):
    [sent] = (await asked("gptscore", "summarization", SUMMARIES[code])).prompts
    assert sent == filled(printed("summarization")[code], SOURCE) + OUTPUT


@pytest.mark.parametrize(
    ("name", "task", "code", "aspect"),
    [("translation", "mqm", *item) for item in TRANSLATIONS.items()]
    + [("data-to-text", "data-to-text", *item) for item in SENTENCES.items()],
)
async def test_gptscores_prompts_against_references(name, task, code, aspect, asked):
    sent = (await asked("gptscore", task, aspect, direction="ref-both")).prompts
    pattern = printed(name)[code]
    assert sent == [filled(pattern, REFERENCE) + OUTPUT, filled(pattern, OUTPUT) + REFERENCE]


async def test_gptscore_without_instruction(asked):
    [sent] = (await asked("gptscore", "summarization", "fluency", instruction=False)).prompts
    assert "`{src}\\n\\nTl;dr{hypo}`" in paper("gptscore_tables_11_12.md")
    assert sent == f"{SOURCE}\n\nTl;dr{OUTPUT}"


def questions(level):
    """The questions of GPTScore's table 12 at one level of FED, by the paper's code."""
    text = paper("gptscore_tables_11_12.md").split("FED turn level:")[1]
    part = text.split("FED dialogue level:")[level == "dialogue"]
    found = re.findall(r"([A-Z]{3}) `([^`]+)`", " ".join(part.split()))
    return {code: words.replace("...", "Are the responses of AI") for code, words in found}


@pytest.mark.parametrize(
    ("level", "code", "aspect"),
    [("turn", *item) for item in TURNS.items()]
    + [("dialogue", *item) for item in DIALOGUES.items()],
)
async def test_gptscores_questions_about_dialogues(level, code, aspect, asked):
    task, example = ("fed-turn", CHAT) if level == "turn" else ("fed-dialog", WHOLE)
    [sent] = (await asked("gptscore", task, aspect, example)).prompts
    block = re.search(r"```\n(.+?)\n```", paper("gptscore_tables_11_12.md"), re.S)[1]
    expected = block.format(question=questions(level)[code], history=WHOLE.output)
    assert expected == f"{sent}."


def joined(text):
    """A text with its line breaks as spaces, which copies of papers do not keep."""
    return " ".join(text.split())


SOUP = Example(
    id="s",
    source="Speaker A: They'll have 100 gallons of crab soup!",
    context="A fact.",
    output="Wow that's a lot of soup. Are you talking about the Fort-Reno Concert?",
    references=("Soup.",),
)


SENTENCE = re.compile(r"sentence \$t x_t\$")


def decomposed(aspect, inputs):
    """The instruction, the question and the subquestion that DecompEval prints for an aspect."""
    text = paper("decompeval.txt")
    instruction = re.search(r's ="\*(.+?)\*"', text)[1]
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") == 3]
    _, _, question, subquestion = next(
        row
        for row in rows
        if row[0].casefold() == aspect
        and joined(row[1].replace("<i>", "").replace("</i>", "")).split(":")[0]
        == inputs.split(":")[0]
    )
    return instruction, question, subquestion


@pytest.mark.parametrize(
    ("task", "aspect", "inputs"),
    [
        ("dialogue", "naturalness", "dialogue history: {0.source} response: {0.output}"),
        ("dialogue", "coherence", "dialogue history: {0.source} response: {0.output}"),
        ("dialogue", "groundedness", "response: {0.output} fact: {0.context}"),
        ("dialogue", "understandability", "dialogue history: {0.source} response: {0.output}"),
        ("summarization", "coherence", "document: {0.source} summary: {0.output}"),
        ("summarization", "relevance", "summary: {0.output} reference: {0.references[0]}"),
        ("data-to-text", "naturalness", "utterance: {0.output}"),
        ("data-to-text", "informativeness", "sentence: {0.output} reference: {0.references[0]}"),
    ],
)
async def test_decomp_evals_input(task, aspect, inputs, asked):
    instruction, question, subquestion = decomposed(aspect, inputs)
    recorded = await asked("decomp-eval", task, aspect, SOUP)
    one, two = (piece["answer"].capitalize() for piece in recorded.scores[0].evidence[:2])
    first, second = (
        SENTENCE.sub(f'sentence {n} "{s}"', subquestion)
        for n, s in ((1, "Wow that's a lot of soup."), (2, "Are you talking about the Fort-Reno "
            "Concert?"))
    )  # fmt: skip
    begin = f"{instruction} {inputs.format(SOUP)}"
    answers = (f"{begin} {first}", f"{begin} {first} {one} {second}")
    expected = [*answers, f"{answers[-1]} {two} {question}"]
    assert list(map(joined, recorded.prompts)) == expected


@pytest.mark.parametrize(
    ("task", "aspect", "inputs"),
    [
        ("dialogue", "engagingness",
         "dialogue history: {0.source} fact: {0.context} response: {0.output}"),
        ("summarization", "consistency", "claim: {0.output} document: {0.source}"),
        ("summarization", "fluency", "paragraph: {0.output}"),
    ],
)  # fmt: skip
async def test_decomp_evals_input_where_each_sentence_is_judged_by_itself(
    task, aspect, inputs, asked
):
    instruction, question, subquestion = decomposed(aspect, inputs)
    sent = list(map(joined, (await asked("decomp-eval", task, aspect, SOUP)).prompts))
    assert len(sent) == 4
    for sentence in ("Wow that's a lot of soup.", "Are you talking about the Fort-Reno Concert?"):
        inputs_alone = inputs.format(SOUP.model_copy(update={"output": sentence}))
        first = SENTENCE.sub(f'sentence 1 "{sentence}"', subquestion)
        begin = f"{instruction} {inputs_alone} {first}"
        assert begin in sent
        assert {f"{begin} {answer} {question}" for answer in ("Yes", "No")} & set(sent)


@pytest.mark.parametrize(
    ("task", "figure"), [("dialogue", 11), ("summarization", 12), ("data-to-text", 13)]
)
async def test_hd_evals_prompts(task, figure, asked):
    text = paper("hd-eval.txt")
    pattern = text[: text.index(f"Figure {figure}: ")].rstrip().rpartition("\n")[2]
    tree = trees.load(task, tasks.load(task))
    aspect = tasks.load(task).aspects[0].name
    sent = list(map(joined, (await asked("hd-eval", task, aspect, SOUP)).prompts))
    root = next(node for node in tree.roots if node.name.casefold() == aspect)
    child = tree.children(root.id)[0]
    labels = tasks.load(task)
    names = (labels.source_name, labels.context_name, labels.output_name)
    sample = list(zip(names, (SOUP.source, SOUP.context, SOUP.output), strict=True))
    expected = (
        pattern.replace("[Parent Criteria]", root.name.lower())
        .replace("[Child Criteria]", child.name)
        .replace("[Definition of Child Criteria]", joined(child.definition))
        .replace("[Sample to be evaluated]", joined(" ".join(f"{a}: {b}" for a, b in sample)))
    )
    assert expected in sent


def plainly(text):
    """A text without what the copy of the paper garbles: asterisks, blanks and dashes."""
    return re.sub(r"[\s*]", "", text).replace("\u2013", "-").replace("\u2019", "'")


@pytest.mark.parametrize(
    ("task", "plan", "names", "appendix"),
    [
        ("summarization", "summeval", ("nli", "bleurt", "sum_bleurt"), "A.2"),
        ("dialogue", "topical-chat", ("lm_prob", "bleurt"), "A.3"),
    ],
)
async def test_fusion_evals_whole_prompts(task, plan, names, appendix, asked):
    text = paper("fusion-eval.txt")
    start = text.index(f"{appendix} Fusion-Eval Evaluation Prompt Template")
    lines = text[start:].splitlines()[3:]
    block = "\n".join(lines).partition("<< eval_result >>")[0]
    values = dict(zip(names, (0.25, 0.5, 0.75), strict=False))
    for marker, value in {
        "source": SOUP.source, "summary": SOUP.output, "conversation": SOUP.source,
        "fact": SOUP.context, "response": SOUP.output,
        **{f"{name}_score{end}": f"{value:g}" for name, value in values.items()
           for end in ("", "_source_answer")},
    }.items():  # fmt: skip
        block = block.replace(f"[[{marker}]]", value)
    measures = [
        tool(description=name, name=name, scale=(0, 1))(lambda example, value=value: value)
        for name, value in values.items()
    ]
    recorded = await asked(
        "fusion-eval", task, None, SOUP, measures, plan=plan, n=1, parse_retries=0
    )
    assert plainly(recorded.prompts[0]) == plainly(block)
    with pytest.raises(ConfigurationError, match="plan=summeval or plan=topical-chat"):
        build("fusion-eval", judge(), task=task, options={"profile": "paper"}, tools=measures)


def judge():
    """A model that is never asked."""
    return ScriptedModel([])


def g_evals(aspect):
    """The prompt that G-Eval's authors publish for an aspect (nlpyang/geval, MIT license), with the
    texts in their places."""
    file = Path(__file__).parents[1] / "fixtures" / "g_eval" / f"{aspect[:3]}_detailed.txt"
    words = file.read_text(encoding="utf-8")
    return words.replace("{{Document}}", SOURCE).replace("{{Summary}}", OUTPUT)


@pytest.mark.parametrize(
    ("aspect", "scale"),
    [("coherence", (1, 5)), ("consistency", (1, 5)), ("fluency", (1, 3)), ("relevance", (1, 5))],
)
async def test_g_evals_prompts_are_the_authors(aspect, scale, asked):
    recorded = await asked("g-eval", "summarization", aspect)
    assert recorded.prompts == [g_evals(aspect)]  # no model writes steps
    assert recorded.scores[0].scale == scale
    assert (await asked("g-eval", "summarization", aspect, steps="task")).prompts == [
        g_evals(aspect)
    ]
    bare = (await asked("g-eval", "summarization", aspect, steps="none")).prompts
    assert bare == [re.sub(r"Evaluation Steps:\n\n(?s:.+?)\n\n(?=\n)", "", g_evals(aspect))]


@pytest.mark.parametrize("aspect", ["coherence", "fluency"])
async def test_g_evals_steps_are_written_without_a_sentence_of_ours(aspect, asked):
    writing, judging = (await asked("g-eval", "summarization", aspect, steps="auto")).prompts
    criteria = re.split("Evaluation Steps:|\n\nExample:", g_evals(aspect))[0].rstrip("\n")
    assert writing == f"{criteria}\n\nEvaluation Steps:"
    assert judging.startswith(writing)


async def test_g_evals_words_are_not_put_in_place_of_an_aspect_of_ones_own(tmp_path, asked):
    file = tmp_path / "summarization.toml"
    file.write_text(
        'intro = "You will be given a summary."\n[[aspects]]\nname = "fluency"\n'
        'definition = "how it reads."\nscale = [0, 10]\nsteps = ["Read.", "Rate."]\n'
    )
    [sent] = (await asked("g-eval", str(file), "fluency", steps="task")).prompts
    assert "Fluency (0-10) - how it reads.\n\nEvaluation Steps:\n\n1. Read.\n2. Rate." in sent
    assert f"Example:\n\n\nSource:\n\n{SOURCE}\n\nText:" in sent


async def test_the_direct_evaluator_of_fusion_eval_is_asked_so_too(asked):
    measure = tool(description="m", name="m", scale=(0, 1))(lambda example: 0.5)
    recorded = await asked(
        "fusion-eval", "summarization", "fluency", EXAMPLE, [measure],
        fusion="avg", direct=True, n=2,
    )  # fmt: skip
    assert set(recorded.prompts) == {g_evals("fluency")}


async def test_methods_whose_paper_publishes_no_prompt_refuse_the_profile():
    for method in ("coascore", "llm-score", "llm-score-cot"):
        with pytest.raises(ConfigurationError, match=f"'paper' has no prompts for {method}"):
            build(method, judge(), task="summarization", options={"profile": "paper"})


async def test_the_profile_keeps_the_papers_order(asked):
    with pytest.raises(ConfigurationError, match="leave out prompt_layout="):
        await asked("gptscore", "summarization", "fluency", prompt_layout="shared-prefix")
