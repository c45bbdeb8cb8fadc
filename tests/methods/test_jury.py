"""A jury: several models on the same aspects, their mean or median, gaps, and every juror for
itself."""

import pytest

from tests.methods.judging import scores_of
from textassay.cli.flags import read_models
from textassay.methods import build
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example

EXAMPLE = Example(id="x", source="A cat sat on a mat.", output="A cat sat.")


def jury(*ratings, **options):
    """A jury of models that always say the same."""
    seated = {
        f"juror{at}": ScriptedModel(lambda _, said=said: f"Score: {said}", name=f"lab/model-{at}")
        for at, said in enumerate(ratings, start=1)
    }
    aspects = ["fluency", "coherence"]
    return build("jury", seated, task="summarization", aspects=aspects, options=options)


async def test_the_mean_of_the_jurors_with_each_as_evidence():
    method = jury(1, 2, 5)
    fluency, coherence = await scores_of(method, EXAMPLE)
    assert (fluency.aspect, coherence.aspect) == ("fluency", "coherence")
    assert (fluency.value, fluency.how) == (pytest.approx(8 / 3), "fused")
    assert fluency.spread == pytest.approx(1.69967, abs=1e-4)
    shown = [(piece["text"], piece["value"]) for piece in fluency.evidence]
    assert shown == [("model-1", 1), ("model-2", 2), ("model-3", 5)]
    assert (fluency.usage.calls, coherence.usage.calls) == (3, 3)
    assert "|model:lab/model-1+lab/model-2+lab/model-3|" in fluency.signature
    fluency, _ = await scores_of(jury(1, 2, 5, combine="median"), EXAMPLE)
    assert fluency.value == 2


async def test_a_juror_without_a_rating_is_left_out_and_too_many_leave_no_score():
    one_gone, _ = await scores_of(jury(2, 4, "none", parse_retries=0), EXAMPLE)
    assert one_gone.value == 3
    two_gone, _ = await scores_of(jury(2, "none", "none", parse_retries=0), EXAMPLE)
    assert (two_gone.value, two_gone.outcome) == (None, "invalid")
    assert [piece["outcome"] for piece in two_gone.evidence] == ["scored", "invalid", "invalid"]


async def test_every_juror_for_itself():
    method = jury(1, 4, output="jurors")
    assert [aspect.label for aspect in method.aspects] == [
        "fluency/model-1", "fluency/model-2", "coherence/model-1", "coherence/model-2",
    ]  # fmt: skip
    scores = await scores_of(method, EXAMPLE)
    assert [(s.value, s.how) for s in scores][:2] == [(1, "text"), (4, "text")]
    assert {score.signature for score in scores} == {method.signature}


async def test_one_model_is_a_jury_of_one_and_no_model_votes_twice():
    alone = build(
        "jury", ScriptedModel(["Score: 4"] * 9), task="summarization", aspects=["fluency"]
    )
    assert [score.value for score in await scores_of(alone, EXAMPLE)] == [4]
    same = {"juror1": ScriptedModel(name="a"), "juror2": ScriptedModel(name="a")}
    with pytest.raises(ConfigurationError, match="'a' is a juror twice"):
        build("jury", same, task="summarization")
    with pytest.raises(ConfigurationError, match="a jury needs jurors"):
        build("jury", {"scorer": ScriptedModel()}, task="summarization")


async def test_the_command_line_takes_the_role_again_and_again():
    assert read_models(["juror=a/b", "juror=c/d"]) == {"juror1": "a/b", "juror2": "c/d"}
    seated = read_models(["juror1=a", "juror=b", "juror=c"])
    assert seated == {"juror1": "a", "juror2": "b", "juror3": "c"}
    assert read_models(["juror=a", "m"]) == {"juror": "a", "": "m"}
    with pytest.raises(ConfigurationError, match="two models for the role 'scorer'"):
        read_models(["scorer=a", "scorer=b"])
