"""METEOR: NLTK's figures, with words and stems alone and with a WordNet of two synsets."""

import pytest

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import Meteor, prepare_tools

nltk = pytest.importorskip("nltk")
EXAMPLE = Example(
    output="The cats sat on a mat.", references=("A dog ran.", "the cat sat on the mat .")
)


@pytest.mark.asyncio
async def test_equal_to_nltk_without_synonyms():
    """The best reference counts, on words and stems."""
    from nltk.translate.meteor_score import single_meteor_score

    class Nothing:
        def synsets(self, word):
            return []

    output = ["The", "cats", "sat", "on", "a", "mat", "."]
    values = [
        single_meteor_score(reference.split(), output, wordnet=Nothing())
        for reference in ("A dog ran .", "the cat sat on the mat .")
    ]
    tool = Meteor(synonyms=False)
    await prepare_tools([tool])
    found = await tool.score(EXAMPLE)
    assert found.value == pytest.approx(max(values))
    assert values[1] > values[0]
    assert "synonyms:False" in found.signature
    assert (await tool.score(Example(output="A cat."))).error.type == "MissingReferences"


@pytest.mark.asyncio
async def test_wordnet_is_asked_for_by_name(tmp_path, monkeypatch):
    """The error gives the line that fetches it; nothing is downloaded, and no score is made up."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(ConfigurationError, match=r"python -m nltk\.downloader wordnet"):
        await prepare_tools([Meteor()])
    with pytest.raises(ConfigurationError, match=r"meteor\?synonyms=false"):
        await Meteor().score(EXAMPLE)
