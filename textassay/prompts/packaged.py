"""The files that come with the package.

Tasks, trees, plans, question tables and profiles, each found by name.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent

READY_TASKS = (
    "rag",
    "rag-reference",
    "conversation",
    "conversation-turn",
    "agent",
    "safety",
    "code-review",
)
"""Those of the packaged tasks that are of no paper."""

TASKS = (
    "summarization",
    "dialogue",
    "data-to-text",
    "translation",
    "general",
    "fed-turn",
    "fed-dialog",
    "story",
    "mqm",
    *READY_TASKS,
)
"""Names of the packaged tasks: what is judged in a kind of text, and what its parts are called."""

TREES = ("dialogue", "summarization", "data-to-text")
"""Names of the packaged trees of aspects, HD-Eval's published case studies; each is for the task of
the same name."""

CHECKLISTS = (
    "dialogue",
    "summarization",
    "data-to-text",
    "translation",
    "dialogue-all",
    "summarization-all",
)
"""Names of the packaged checklists: CheckEval's questions, with more of them in those that end in
`-all`; each is for the task that its name begins with."""

PLANS = ("summeval", "topical-chat")
"""Names of the packaged plans, which Fusion-Eval's appendix prints."""

TABLES = ("decomp_eval", "g_eval", "gptscore", "gptscore_aspects")
"""Names of the packaged tables: words that a method puts into its prompts, by task and aspect."""

REPHRASINGS = tuple(f"rephrasing-{number}" for number in range(1, 8))
"""Names of the packaged question files for DecompEval's figure 5: the original and six others."""

PROFILES = ("embedded", "paper")
"""Names of the packaged profiles: that of the embedded model, and the papers' prompts byte by
byte."""


def task_file(name: str) -> Path:
    """Return the path of one of `TASKS`; raise `KeyError` for any other name."""
    return _packaged("tasks", TASKS, name)


def tree_file(name: str) -> Path:
    """Return the path of one of `TREES`; raise `KeyError` for any other name."""
    return _packaged("trees", TREES, name)


def checklist_file(name: str) -> Path:
    """Return the path of one of `CHECKLISTS`; raise `KeyError` for any other name."""
    return _packaged("checklists", CHECKLISTS, name)


def plan_file(name: str) -> Path:
    """Return the path of one of `PLANS`; raise `KeyError` for any other name."""
    return _packaged("plans", PLANS, name)


def table_file(name: str) -> Path:
    """Return the path of one of `TABLES`; raise `KeyError` for any other name."""
    return _packaged("tables", TABLES, name)


def rephrasing_file(name: str) -> Path:
    """Return the path of one of `REPHRASINGS`; raise `KeyError` for any other name."""
    return _packaged("tables", REPHRASINGS, name)


def profile_folder(name: str) -> Path:
    """Return the folder of one of `PROFILES`; raise `KeyError` for any other name."""
    return _packaged("profiles", PROFILES, name, suffix="")


def _packaged(folder: str, names: tuple[str, ...], name: str, suffix: str = ".toml") -> Path:
    if name not in names:
        raise KeyError(name)
    return _FOLDER / folder / f"{name}{suffix}"
