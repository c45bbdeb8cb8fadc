"""`EncodedScore`: written and counted as the score that it stands for, also by another process."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from textassay.runtime.messages import Score, Usage
from textassay.runtime.storage.run_files import SCORES, encoded
from textassay.runtime.storage.run_folder import RunFolder

PAID = Usage(calls=2, cached_calls=1, prompt_tokens=9, completion_tokens=3, cost=0.25)
ABOUT = {"aspect": "fluency", "how": "text", "signature": "s", "usage": PAID}
SCORES_MADE = (
    Score(id="a", value=3.5, outcome="scored", scale=(1, 5), explanation="so", **ABOUT),
    Score(id="b", value=4, outcome="scored", scale=(1, 5), evidence=({"text": "t"},), **ABOUT),
    Score(id="d", value=2, outcome="scored", scale=(1, 5), explanation="half \ud83d", **ABOUT),
    Score.unscored("NoRating", "no number", id="c", outcome="invalid", scale=(1, 5), **ABOUT),
)


@pytest.mark.asyncio
async def test_it_is_written_and_counted_as_the_score(tmp_path: Path) -> None:
    sent = pickle.loads(pickle.dumps([encoded(score) for score in SCORES_MADE]))
    assert tuple(each.score for each in sent) == SCORES_MADE
    written, summaries = [], []
    for name, scores in (("scores", SCORES_MADE), ("encoded", sent)):
        folder = RunFolder.create(tmp_path / name)
        folder.write_manifest({})
        await folder.append(scores)
        summaries.append(folder.tally.summary())
        await folder.aclose()
        written.append((tmp_path / name / SCORES).read_bytes())
    assert written[0] == written[1]
    assert summaries[0] == summaries[1]
