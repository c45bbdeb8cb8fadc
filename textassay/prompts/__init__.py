"""What models are sent: prompt files, task files, and how texts are inserted into them.

Takes and returns plain values; knows nothing of models, messages or methods.
"""

from textassay.prompts.fencing import fence, nonce
from textassay.prompts.frames import PromptFrame, frame
from textassay.prompts.packaged import (
    CHECKLISTS,
    PLANS,
    TASKS,
    TREES,
    checklist_file,
    plan_file,
    task_file,
    tree_file,
)
from textassay.prompts.rendering import PromptFault, Turn, digest, files, render

__all__ = [
    "CHECKLISTS",
    "PLANS",
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
    "task_file",
    "tree_file",
]
