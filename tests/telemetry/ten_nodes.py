"""A graph of ten nodes, five of which ask a model."""

from __future__ import annotations

from textassay import Assignment, Failure, Graph, Node, Score
from textassay.runtime.messages import Message
from textassay.runtime.model import ChatMessage, Model, Request


class Text(Message):
    """A text on its way."""

    text: str


class Scores(Message):
    """What comes out."""

    scores: tuple[Score, ...]


def ten_nodes(model: Model) -> Graph:
    """Begin, five judges side by side, two that gather, one that decides and one that ends."""

    async def begin(assignment: Assignment) -> Text:
        return Text(text=assignment.example.output)

    async def judge(text: Text) -> Text:
        request = Request(messages=(ChatMessage(role="user", content=text.text),))
        return Text(text=(await model.generate(request)).samples[0].text)

    async def gather(a: Text, b: Text) -> Text:
        return Text(text=a.text + b.text)

    async def decide(a: Text, b: Text, c: Text) -> Text:
        return Text(text=a.text + b.text + c.text)

    async def end(assignment: Assignment, text: Text) -> list[Score | Failure]:
        return [
            Score(id=assignment.example.id, aspect=a.label, value=4, scale=(1, 5), signature="ten")
            for a in assignment.aspects
        ]

    judges = [Node(f"judge{i}", judge, text="begin") for i in range(5)]
    nodes = [
        Node("begin", begin, assignment="input"),
        *judges,
        Node("gather0", gather, a="judge0", b="judge1"),
        Node("gather1", gather, a="judge2", b="judge3"),
        Node("decide", decide, a="gather0", b="gather1", c="judge4"),
        Node("end", end, assignment="input", text="decide"),
    ]
    return Graph("ten", input=Assignment, nodes=nodes, output="end")
