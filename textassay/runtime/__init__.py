"""The engine below all agents: models and their wrappers, graphs, data, settings and errors.

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.runtime import errors
    from textassay.runtime.api import connect
    from textassay.runtime.backends.local.llamacpp import LlamaCppModel
    from textassay.runtime.backends.replay import RecordedModel
    from textassay.runtime.backends.scripted import DryRunModel, ScriptedModel
    from textassay.runtime.base import Message, ScoreError, Usage
    from textassay.runtime.calls.budget import Budget
    from textassay.runtime.calls.call import Wrapper
    from textassay.runtime.calls.deciding import decider
    from textassay.runtime.calls.sharing import chain_requests, once
    from textassay.runtime.concurrency import gather
    from textassay.runtime.data.dataset import Examples
    from textassay.runtime.graph import Graph, Node, constant, each
    from textassay.runtime.images import Image
    from textassay.runtime.messages import (
        Aspect,
        AspectTree,
        Assignment,
        Example,
        Failure,
        Plan,
        Scale,
        Score,
    )
    from textassay.runtime.model import (
        Capabilities,
        ChatMessage,
        ChoicesRequest,
        ChoicesResponse,
        ContinuationRequest,
        ContinuationResponse,
        Deciding,
        Model,
        Request,
        Response,
        Sample,
        Scoring,
        TokenLogprob,
        with_images,
    )
    from textassay.runtime.questions import (
        DecisionRequest,
        DecisionResponse,
        NamedText,
        Question,
        QuestionAnswer,
        Way,
    )
    from textassay.runtime.settings import Settings
    from textassay.runtime.stack import ConnectedModel

_NAMES_IN = {
    "api": "connect",
    "backends.local.llamacpp": "LlamaCppModel",
    "backends.replay": "RecordedModel",
    "backends.scripted": "DryRunModel ScriptedModel",
    "base": "Message ScoreError Usage",
    "calls.budget": "Budget",
    "calls.call": "Wrapper",
    "calls.deciding": "decider",
    "calls.sharing": "chain_requests once",
    "concurrency": "gather",
    "data.dataset": "Examples",
    "graph": "Graph Node each constant",
    "images": "Image",
    "messages": "Aspect AspectTree Assignment Example Failure Plan Scale Score",
    "model": "Capabilities ChatMessage ChoicesRequest ChoicesResponse ContinuationRequest"
    " ContinuationResponse Deciding Model Request Response Sample Scoring TokenLogprob"
    " with_images",
    "questions": "DecisionRequest DecisionResponse NamedText Question QuestionAnswer Way",
    "settings": "Settings",
    "stack": "ConnectedModel",
}

__all__ = [
    "Aspect",
    "AspectTree",
    "Assignment",
    "Budget",
    "Capabilities",
    "ChatMessage",
    "ChoicesRequest",
    "ChoicesResponse",
    "ConnectedModel",
    "ContinuationRequest",
    "ContinuationResponse",
    "Deciding",
    "DecisionRequest",
    "DecisionResponse",
    "DryRunModel",
    "Example",
    "Examples",
    "Failure",
    "Graph",
    "Image",
    "LlamaCppModel",
    "Message",
    "Model",
    "NamedText",
    "Node",
    "Plan",
    "Question",
    "QuestionAnswer",
    "RecordedModel",
    "Request",
    "Response",
    "Sample",
    "Scale",
    "Score",
    "ScoreError",
    "Scoring",
    "ScriptedModel",
    "Settings",
    "TokenLogprob",
    "Usage",
    "Way",
    "Wrapper",
    "chain_requests",
    "connect",
    "constant",
    "decider",
    "each",
    "errors",
    "gather",
    "once",
    "with_images",
]

__getattr__, __dir__ = lazy(__name__, _NAMES_IN, ("errors",))
