"""Makes files of examples whose prompts have about 2 kB, all different."""

from __future__ import annotations

import json
import random
from pathlib import Path

TEXT = (
    "the council of a town said that its new bridge would open late because rain had slowed every"
    " crew there"
)
WORDS = TEXT.split()


def make(path: Path, count: int, *, seed: int = 0, source_words: int = 220) -> Path:
    """Write `count` examples as JSON lines and return the path."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for at in range(count):
            source = " ".join(rng.choices(WORDS, k=source_words))
            output = f"Summary {at}: " + " ".join(rng.choices(WORDS, k=30))
            row = {
                "id": f"made-{at:07}",
                "source": source,
                "output": output,
                "group": f"g{at // 10}",
                "system": "m",
            }
            file.write(json.dumps(row) + "\n")
    return path
