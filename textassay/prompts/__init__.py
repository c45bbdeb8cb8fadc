"""What models are sent: prompt files, task files, and how texts are inserted into them.

Takes and returns plain values; knows nothing of models, messages or methods.
"""

from textassay.prompts.packaged import (
    CHECKLISTS,
    PLANS,
    READY_TASKS,
    TASKS,
    TREES,
    checklist_file,
    plan_file,
    task_file,
    tree_file,
)
from textassay.prompts.rendering import (
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
    "CHECKLISTS",
    "PLANS",
    "READY_TASKS",
    "TASKS",
    "TREES",
    "PromptFault",
    "PromptFrame",
    "Turn",
    "checklist_file",
    "digest",
    "fence",
    "files",
    "frame",
    "nonce",
    "plan_file",
    "render",
    "simplify",
    "task_file",
    "tree_file",
]
