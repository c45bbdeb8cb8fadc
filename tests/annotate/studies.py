"""Small studies for the tests of annotation."""

from textassay.annotate.study import Study
from textassay.methods.library import tasks
from textassay.runtime.messages import Aspect, Example

TONE = Aspect(name="tone", definition="whether the tone is even.", scale=(1, 5))
POLITE = Aspect(
    name="polite", definition="politeness.", scale=(0, 1), question="Is the reply polite?"
)


def examples(groups: int = 3, systems: int = 2, **extra: object) -> list[Example]:
    """Return `groups` sources with one output per system, whose ids name the system."""
    return [
        Example(
            id=f"doc-{group}-SECRET{system}",
            output=f"Output {group} of some system, number {system}.",
            source=f"Source {group}.",
            system=f"SECRET{system}",
            group=f"doc-{group}",
            metrics={"judge/tone": 4.875},
            meta=dict(extra),
        )
        for group in range(groups)
        for system in range(systems)
    ]


def study(items: list[Example] | None = None, **design: object) -> Study:
    """Return a study of two aspects, without repeated items unless asked for."""
    design.setdefault("repeat_share", 0.0)
    return Study(items or examples(), tasks.load("general", [TONE, POLITE]), **design)
