"""Names and prose keep to the field's words: no private dialect, American spelling."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = sorted((ROOT / "textassay").rglob("*.py"))
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# These names say nothing of what they hold: `rating`, `request`, `context` and `result` do. Other
# participles are a matter of judgment: beside its noun (`kept = ...` of answers) one may be clear.
_WORD = r"_?(?:told|asked|said|wanted|rooted\w*|warmth|carry_out|whence|wherein|sequel\w*)\b"
# Where a name is bound: assignments, definitions, loops and parameters. A regex, since tokenizing
# the package takes seconds.
DIALECT = re.compile(
    rf"^ *(?:self\.)?{_WORD}(?:: [^\n=]+)? = |\b(?:def|class) {_WORD}|\bfor {_WORD} in\b"
    rf"|^ +(?:\*, )?{_WORD}: [^\n]+,$|^ *(?:async )?def [^\n]*[(,] ?{_WORD}: ",
    re.MULTILINE,
)
# Functions are named by a verb or a noun; properties and the constructor `Score.unscored` may be
# adjectives.
PARTICIPLE = re.compile(
    r"(?<!property\n)^ *(?:async )?def _?(?!(?:seed|feed|need|weed|_?embed|unscored)\()"
    r"(?:[a-z]+ed|seen|shown|known|given|kept|held|made|found|left|sent|chosen|written|taken|drawn"
    r"|bound|won|laid)(?:_out)?\(",
    re.MULTILINE,
)
# No word boundary before it: names join words with underscores, and words have prefixes.
BRITISH = re.compile(
    r"(colour|behaviour|favour|honour|neighbour|normalis|optimis|recognis|catalogue|licence"
    r"|labelled|modelled|judgement|learnt|quantis|tokenis|initialis|serialis|artefact|centred"
    r"|standardis|parenthesis[ei]|travelled|whilst|amongst)\w*",
    re.IGNORECASE,
)
RIDDLES = re.compile(
    r"\bwhat (?:was|is) told\b|\bis one too many\b|\bof one's own\b|\bhow far (?:it|they) bears?\b"
    r"|\bgoes on where\b|\b(?:a|one) (?:minute|score|request|aspect) each an?\b"
    r"|\bin no figure\b|\b(?:low|high) (?:score|one) is a good one\b|\bheld? against\b"
    r"|\bthe same is asked again\b|\bnothing shows (?:how|that|whether)\b|\bcounts? the same\b",
    re.IGNORECASE,
)
# The same within one line of a string literal: "contains no", "continue with", "does not have".
MESSAGE_RIDDLES = re.compile(
    r'(?<!")f?"(?!"")[^"\n]*\b(?:holds? no|go on (?:with|by)|differ in nothing|anew|mended'
    r"|which this example lacks)\b"
)
REMEDY = {
    "name": "name what it holds: rating, request, answer, context, result, expected",
    "function": "name it by a verb (`_join_names`) or a noun (`_aspect_map`)",
    "spelling": "spell it the American way (behavior, color, labeled), or add it to KEPT",
    "riddle": "say it plainly, in the words that a reader would search for",
}
KEPT = {
    # Words of judges.
    "textassay/agents/reading/words.py": {"judgement"},
    # A prompt of a probe and a key of the cache: a change would miss answers that were paid for.
    "textassay/cli/commands/doctor.py": {"colours"},
    "textassay/runtime/backends/local/llamacpp.py": {"quantisation"},
    "textassay/runtime/backends/local/llamacpp_library.py": {"quantisation"},
    # Data of an example: what a customer wrote.
    "docs/tasks.md": {"artefact"},
}


@pytest.mark.parametrize(
    ("what", "pattern"), [("name", DIALECT), ("function", PARTICIPLE)], ids=["names", "functions"]
)
def test_no_name_is_private_dialect(what: str, pattern: re.Pattern[str]) -> None:
    offenders = [
        f"{file.relative_to(ROOT)}: {match[0].strip()}"
        for file in PACKAGE
        for match in pattern.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not offenders, f"{REMEDY[what]}: {offenders}"


@pytest.mark.parametrize(
    ("what", "pattern"), [("spelling", BRITISH), ("riddle", RIDDLES)], ids=["spelling", "riddles"]
)
def test_prose_is_plain_american_english(what: str, pattern: re.Pattern[str]) -> None:
    offenders = [
        f"{name}: {match[0]}"
        for file in (*PACKAGE, *DOCS)
        for name in [file.relative_to(ROOT).as_posix()]
        for match in pattern.finditer(file.read_text(encoding="utf-8"))
        if match[0].lower() not in KEPT.get(name, set())
    ]
    assert not offenders, f"{REMEDY[what]}: {offenders}"


def test_messages_use_plain_words() -> None:
    offenders = [
        f"{file.relative_to(ROOT)}: {match[0].strip()}"
        for file in PACKAGE
        for match in MESSAGE_RIDDLES.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not offenders, f"{REMEDY['riddle']}: {offenders}"
