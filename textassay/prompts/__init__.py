"""Prompt files, how texts are inserted into them, and the other packaged files.

Tasks, trees, checklists, plans, tables of words and profiles are found by name. The functions take
and return plain values and do not import models, messages or methods.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from textassay.prompts.rendering import (
    FOLDER,
    PromptFault,
    PromptFrame,
    Turn,
    digest,
    fence,
    files,
    frame,
    nonce,
    render,
    simplify,
)

__all__ = [
    "CHECKLISTS", "PLANS", "PROFILES", "READY_TASKS", "REPHRASINGS", "TASKS", "TREES",
    "PromptFault", "PromptFrame", "Turn", "checklist_file", "digest", "fence", "files", "frame",
    "nonce", "plan_file", "profile_folder", "render", "rephrasing_file", "simplify", "table_file",
    "task_file", "tree_file",
]  # fmt: skip

READY_TASKS = (
    "rag", "rag-reference", "conversation", "conversation-turn", "agent", "safety", "code-review",
)  # fmt: skip
"""Names of the packaged tasks that are not from a paper."""

TASKS = (
    "summarization", "dialogue", "data-to-text", "translation", "general", "fed-turn",
    "fed-dialog", "story", "mqm", *READY_TASKS,
)  # fmt: skip
"""Names of the packaged tasks: the aspects of a kind of text, and the names of its parts."""

TREES = ("dialogue", "summarization", "data-to-text")
"""Names of the packaged trees of aspects, HD-Eval's published case studies; each is for the task of
the same name."""

CHECKLISTS = (
    "dialogue", "summarization", "data-to-text", "translation", "dialogue-all",
    "summarization-all",
)  # fmt: skip
"""Names of the packaged checklists: CheckEval's questions, with more of them if the name ends in
`-all`; each is for the task with which its name begins."""

PLANS = ("summeval", "topical-chat")
"""Names of the packaged plans, which Fusion-Eval's appendix prints."""

REPHRASINGS = tuple(f"rephrasing-{number}" for number in range(1, 8))
"""Names of the packaged question files for DecompEval's figure 5: the original and six others."""

PROFILES = ("embedded", "paper")
"""Names of the packaged profiles: for the embedded model, and for the papers' prompts byte by
byte."""


def _find_packaged(folder: str, names: tuple[str, ...], name: str, suffix: str = ".toml") -> Path:
    """Return the path of one of these files, or raise `KeyError`."""
    if name not in names:
        raise KeyError(name)
    return FOLDER / folder / f"{name}{suffix}"


# each takes a name
task_file = partial(_find_packaged, "tasks", TASKS)
tree_file = partial(_find_packaged, "trees", TREES)
checklist_file = partial(_find_packaged, "checklists", CHECKLISTS)
plan_file = partial(_find_packaged, "plans", PLANS)
table_file = partial(
    _find_packaged, "tables", ("decomp_eval", "g_eval", "gptscore", "gptscore_aspects")
)
rephrasing_file = partial(_find_packaged, "tables", REPHRASINGS)
profile_folder = partial(_find_packaged, "profiles", PROFILES, suffix="")
