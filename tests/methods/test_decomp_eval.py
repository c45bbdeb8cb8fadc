"""DecompEval by hand: the case of the paper's table 11, averages and sums, its table 6, and what
cannot be scored."""

import math

import pytest

from tests.methods.judging import CHOICES, judged
from textassay.methods import build
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError, ConfigurationError, UnknownName
from textassay.runtime.messages import Example
from textassay.runtime.model import Capabilities

SOUP = Example(
    id="x",
    output="Wow that's a lot of soup. Are you talking about the Fort-Reno Concert? I heard flasher "
    "will perform there.",
    source="Speaker A: That's one U.S. city I haven't been to.\n"
    "Speaker B: They'll have 100 gallons of crab soup!",
    context="from left, emma baker of flasher will perform this summer's final fort reno concert.",
    references=("It is a lot of soup.",),
)
COHERENT = "a coherent response given the dialogue history?"


def judge(table, mass=0.8):
    """A model whose P(yes) depends on the last line of a prompt."""

    def choices(request):
        asked = request.text.rsplit("\n", 1)[1]
        share = next(share for words, share in table.items() if words in asked)
        return {"yes": math.log(mass * share), "no": math.log(mass * (1 - share))}

    return ScriptedModel(choices=choices, name="judge")


async def run(model, task, aspects=None, example=SOUP, **options):
    return await judged("decomp-eval", model, example, task, aspects, **options)


BY_SENTENCE = {"lot of soup": 0.9, "Concert": 0.3, "flasher": 0.6, "": 0.855}


async def test_the_case_of_table_11():
    model = judge(BY_SENTENCE)
    [score] = await run(model, "dialogue", ["coherence"])
    assert (score.aspect, score.how, score.scale) == ("coherence", "logprob", (0, 1))
    assert score.value == pytest.approx(0.855)
    assert score.mass == pytest.approx(0.8)
    questions = [
        f'Is this response sentence 1 "Wow that\'s a lot of soup." {COHERENT}',
        f'Is this response sentence 2 "Are you talking about the Fort-Reno Concert?" {COHERENT}',
        f'Is this response sentence 3 "I heard flasher will perform there." {COHERENT}',
        "Is this a coherent response given the dialogue history?",
    ]
    answers = ["Yes", "No", "Yes", "Yes"]
    assert [piece["text"] for piece in score.evidence] == questions
    assert [piece["answer"].capitalize() for piece in score.evidence] == answers
    assert [piece["p_yes"] for piece in score.evidence] == pytest.approx([0.9, 0.3, 0.6, 0.855])
    assert score.usage.calls == len(model.requests) == 4
    lines = model.requests[-1].text.split("\n")
    assert lines[0] == "Answer the following yes/no question."
    shown = [f"{question} {answer}" for question, answer in zip(questions, answers, strict=True)]
    assert lines[-4:] == [*shown[:3], questions[3]]


async def test_sentences_asked_about_at_once_show_no_earlier_answer():
    """Two steps, whatever the number of sentences; only the last question shows answers."""
    model = judge(BY_SENTENCE)
    [score] = await run(model, "dialogue", ["coherence"], subquestions="parallel")
    assert score.value == pytest.approx(0.855)
    assert [piece["p_yes"] for piece in score.evidence] == pytest.approx([0.9, 0.3, 0.6, 0.855])
    *first, last = (request.text for request in model.requests)
    assert len(first) == 3
    assert all(text.count("response sentence") == 1 for text in first)
    assert [line.rsplit(" ", 1)[1] for line in last.split("\n")[-4:-1]] == ["Yes", "No", "Yes"]


async def test_a_sub_question_without_an_answer_leaves_no_score_at_once():
    model = ScriptedModel(choices=lambda request: {"maybe": 0.0}, name="judge")
    [score] = await run(model, "dialogue", ["coherence"], subquestions="parallel")
    assert (score.outcome, score.error.type) == ("invalid", "NoLabelMass")
    assert score.usage.calls == len(model.requests) == 3


def sentence_judge(table):
    """A model whose P(yes) depends on the output in the prompt; for a sub-question it is 0.2."""

    def choices(request):
        share = next(share for words, share in table.items() if words in request.text)
        asked = request.text.rsplit("\n", 1)[1]
        share = 0.2 if "sentence 1" in asked else share
        return {"yes": math.log(share), "no": math.log(1 - share)}

    return ScriptedModel(choices=choices, name="judge")


ALONE = {"lot of soup": 0.9, "Fort-Reno Concert?": 0.3, "I heard flasher": 0.6}


async def test_engagingness_sums_and_fluency_averages_sentences_judged_by_themselves():
    model = sentence_judge(ALONE)
    [engaging] = await run(model, "dialogue", ["engagingness"])
    assert engaging.value == pytest.approx(0.9 + 0.3 + 0.6)
    assert engaging.scale == (0, 3)
    assert len(model.requests) == 6
    for request in model.requests:
        assert sum(words in request.text for words in ALONE) == 1
        assert "sentence 2" not in request.text
    assert engaging.evidence[0]["sentence"] == "Wow that's a lot of soup."
    [fluent] = await run(model, "summarization", ["fluency"])
    assert fluent.value == pytest.approx((0.9 + 0.3 + 0.6) / 3)
    assert fluent.scale == (0, 1)
    assert "|over:alone|" in fluent.signature


async def test_a_profile_with_words_of_its_own_sums_over_the_answers_of_the_chain():
    model = ScriptedModel(choices=lambda _: {"yes": math.log(0.3), "no": math.log(0.1)})
    [engaging] = await run(model, "dialogue", ["engagingness"], profile=CHOICES)
    assert (engaging.value, engaging.scale) == (pytest.approx(3 * 0.75), (0, 3))
    assert len(model.requests) == 3


@pytest.mark.parametrize("option", [{"question_first": True}, {"subquestions": False}])
async def test_ablations_of_table_6_keep_the_scale_and_not_with_words_of_a_profile(option):
    [engaging] = await run(sentence_judge(ALONE), "dialogue", ["engagingness"], **option)
    assert (engaging.value, engaging.scale) == (pytest.approx(0.9 + 0.3 + 0.6), (0, 3))
    if "subquestions" in option:
        with pytest.raises(ConfigurationError, match="has no meaning for engagingness"):
            await run(judge({}), "dialogue", ["engagingness"], profile=CHOICES, **option)


async def test_table_6_without_instruction_without_sub_questions_and_with_the_question_in_front():
    model = judge(BY_SENTENCE)
    await run(model, "dialogue", ["coherence"], instruction=False)
    assert not any("Answer the following" in request.text for request in model.requests)
    assert model.requests[0].text.startswith("dialogue history: ")
    model = judge({"": 0.7})
    [score] = await run(model, "dialogue", ["coherence"], subquestions=False)
    assert (score.value, score.scale, len(model.requests)) == (pytest.approx(0.7), (0, 1), 1)
    assert "sentence 1" not in model.requests[0].text
    model = judge({"sentence": 0.7, "Answer to the first question:": 0.4})
    [score] = await run(model, "dialogue", ["coherence"], question_first=True)
    lines = model.requests[-1].text.split("\n")
    assert lines[1] == "Is this a coherent response given the dialogue history?"
    assert lines[2].startswith("dialogue history: ")
    assert score.value == pytest.approx(0.4)
    assert "Is this a coherent response" not in model.requests[0].text


async def test_the_seven_rephrasings_of_figure_5():
    asked = set()
    for number in range(1, 8):
        model = judge({"": 0.5})
        await run(model, "dialogue", ["naturalness"], questions=f"rephrasing-{number}")
        sub, question = (model.requests[at].text.rsplit("\n", 1)[1] for at in (0, -1))
        assert 'response sentence 1 "Wow that\'s a lot of soup."' in sub
        asked.add(question)
    assert len(asked) == 7
    assert "Does this response have a natural body to the dialogue history?" in asked


async def test_sentences_by_nltk_need_its_data_and_are_reported(tmp_path, monkeypatch):
    nltk = pytest.importorskip("nltk")
    from nltk.tokenize.punkt import PunktParameters, save_punkt_params

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(ConfigurationError, match=r"nltk\.downloader punkt_tab"):
        build("decomp-eval", judge({}), options={"sentences": "nltk"})
    parameters = PunktParameters()
    parameters.abbrev_types.add("d.c")
    folder = tmp_path / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    save_punkt_params(parameters, dir=str(folder))
    example = SOUP.model_copy(update={"output": "He went to D.C. Nobody came. So what?"})
    model = judge({"": 0.5})
    [score] = await run(model, "dialogue", ["coherence"], example, sentences="nltk")
    assert [piece["text"].split('"')[1] for piece in score.evidence[:-1]] == [
        "He went to D.C. Nobody came.",
        "So what?",
    ]
    assert "|sentences:nltk-" in score.signature


async def test_one_sentence_that_is_certain_sums_to_the_end_of_the_scale():
    model = ScriptedModel(choices=lambda _: {"yes": 0.0, "no": None})
    example = SOUP.model_copy(update={"output": "Soup!"})
    [score] = await run(model, "dialogue", ["engagingness"], example)
    assert (score.value, score.scale) == (1.0, (0, 1))
    assert score.evidence[0]["unreported"] == "no"


async def test_prompts_of_all_aspects_begin_alike_with_a_shared_prefix():
    model = judge(BY_SENTENCE)
    short = SOUP.model_copy(update={"output": "I heard flasher will perform there."})
    await run(model, "summarization", None, short, prompt_layout="shared-prefix")
    texts = [request.text for request in model.requests]
    shared = texts[0].index("</output-")
    assert len({text[: shared + 15] for text in texts}) == 1
    assert any("\nThe claim is the summary above.\n" in text for text in texts)


async def test_relevance_and_informativeness_abstain_without_a_reference_and_ask_nothing():
    bare = SOUP.model_copy(update={"references": ()})
    for task, aspect in (("summarization", "relevance"), ("data-to-text", "informativeness")):
        model = judge(BY_SENTENCE)
        [score] = await run(model, task, [aspect], bare)
        assert (score.outcome, score.error.type) == ("abstained", "MissingReferences")
        assert model.requests == []


async def test_a_task_of_the_users_own_is_asked_about_by_templates(tmp_path):
    path = tmp_path / "story.toml"
    path.write_text(
        'intro = "A story."\noutput_name = "Story"\n[[aspects]]\nname = "suspense"\n'
        'definition = "whether one wants to know how it goes on."\n[[aspects]]\nname = "wit"\n'
        'definition = "jokes"\n'
        'question = "Is this a witty story?"\n',
        encoding="utf-8",
    )
    model = judge({"": 0.6})
    scores = await run(model, str(path), example=Example(id="s", output="A. B."))
    assert [score.value for score in scores] == pytest.approx([0.6, 0.6])
    ends = ["\n".join(request.text.split("\n")[-2:]) for request in model.requests]
    about = "suspense: whether one wants to know how it goes on.\n"
    assert f'{about}Is this story sentence 1 "A. B." good in terms of suspense?' in ends
    assert any(end.endswith("\nIs this story good in terms of suspense?") for end in ends)
    assert any('\nIs this story sentence 1 "A. B." a witty story?' in end for end in ends)


async def test_a_file_of_questions_takes_the_place_of_the_packages(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'instruction = "Say yes or no."\n[[tasks.dialogue.coherence]]\n'
        'inputs = { output = "reply" }\n'
        'question = "Does it fit?"\nsubquestion = "Does {sentence} fit?"\nvalue = "average"\n',
        encoding="utf-8",
    )
    model = judge({"": 0.6})
    [score] = await run(model, "dialogue", ["coherence"], questions=str(path))
    assert score.evidence[0]["text"] == 'Does "Wow that\'s a lot of soup." fit?'
    assert len(score.evidence) == 6
    assert model.requests[0].text.startswith("Say yes or no.\nreply: ")


async def test_options_that_do_not_fit_the_method_are_refused():
    unable = ScriptedModel([], capabilities=Capabilities(choices=False))
    for model, options, error, problem in (
        (judge({}), {"form": "stars"}, UnknownName, "unknown option 'form'"),
        (unable, {"reading": "logprob"}, CapabilityError, "top_logprobs"),
        (judge({}), {"question_first": True, "prompt_layout": "shared-prefix"},
         ConfigurationError, "choose one"),
    ):  # fmt: skip
        with pytest.raises(error, match=problem):
            build("decomp-eval", model, options=options)


async def test_the_manifest_shows_the_scale_of_p_yes():
    facts = build("decomp-eval", judge({}), task="dialogue", aspects=["coherence"]).describe()
    assert facts["aspects"] == [
        {"name": "coherence", "scale": [0.0, 1.0], "higher_is_better": True}
    ]
    assert facts["options"]["subquestions"] is True
