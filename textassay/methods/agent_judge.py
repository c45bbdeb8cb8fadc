"""Agent judge: a judge that searches the material before its verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from textassay.agents.investigator import STEP, CitationCheck, Investigator
from textassay.agents.lookup import SectionIndex, lay_out
from textassay.methods.judging import PromptMethod
from textassay.methods.method import SamplingOptions, model_for
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Example


class AgentJudgeOptions(SamplingOptions):
    """Options of `agent-judge`."""

    max_steps: int = Field(default=12, ge=1, le=100)
    """Most requests for one score: each looks something up, and the last gives the verdict."""
    asking: Literal["auto", "words"] = "auto"
    """`auto`: steps are offered as functions as well, unless the model is known not to support
    functions; `words`: a step is one JSON object in the answer.
    """


class AgentJudge(PromptMethod):
    """A judge that searches the material (Agent-as-a-Judge, Zhuge et al. 2024, arXiv 2410.10934).

    1. The material is laid out in sections: output, source, turns, calls and results, passages.
    2. The judge sees the output and a list of the sections. In each step it lists sections,
    searches them or reads a part of one, at most 6,000 characters.
    3. Within `max_steps` it gives a verdict: findings, each with a quotation, and a score.
    4. A node without a model looks each quotation up in the parts that the judge has read; a
    verdict that cites anything else is abstained.

    Deviations: the paper's judge works on a folder of files, in a fixed order of modules (graph,
    locate, read, retrieve, ask) of which ablations keep some; this one works on the example, and
    chooses the steps itself. Citations, after RULERS (arXiv 2601.08654), and all words are ours.
    """

    name = "agent-judge"
    prompt = "agent_judge"
    labels_prompt = "agent_judge"
    shows_images = False
    shows_source = False
    no_decisions = "it looks nothing up; take decide, or claims with split=sentences"
    Options = AgentJudgeOptions
    options: AgentJudgeOptions

    def prepare(self) -> None:
        options = self.options
        self.most_calls = options.max_steps
        self.chain = (
            f"asks up to {options.max_steps} times in turn for each score; set max_steps lower"
        )
        self.require_writing("steps of looking things up", "take another model")
        model = model_for(self.models, self.judge)
        offers = options.asking == "auto" and model.capabilities.functions is not False
        ask = self.ask(
            temperature=options.temperature or 0.0,
            max_tokens=options.max_tokens or 1024,  # a verdict with several findings
            is_single=True,
        )
        self._investigator = Investigator(ask, options.max_steps, options.parse_retries, offers)
        self.sign(
            ask,
            (ask.layout, options.max_steps, self._task.digest),
            also=(STEP,),
            how=self.how,
            steps=options.max_steps,
            asking="functions" if offers else "words",
            **ask.sampling,
        )

    def nodes(self) -> list[Node]:
        """Lay the material out, let the judge search it, and check the citations."""
        check = CitationCheck(self.signature)
        example = "input.example"
        return [
            Node("material", self._lay_out, example=example),
            Node("inquiries", self._investigator, material="material",
                 aspect=each("input.aspects")),
            Node("scores", check, example=example, material="material",
                 inquiry=each("inquiries")),
        ]  # fmt: skip

    async def _lay_out(self, example: Example) -> SectionIndex:
        ask = self._investigator.ask
        return lay_out(ask.prepare(example), ask.task)
