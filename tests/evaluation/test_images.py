"""Images from data to judges: shown by every method, refused where no judge would see them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.harness import textassay
from tests.loopback import listening
from tests.pictures import png, png_uri
from textassay import Aspect, evaluate, evaluate_sync
from textassay.annotate.interchange import write
from textassay.annotate.study import Study
from textassay.evaluation.exchanges import exchanges_of_run
from textassay.methods import build
from textassay.methods.library.tasks import load
from textassay.report import write_report
from textassay.report.examples import MAX_IMAGE
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError, ConfigurationError, ImagesRefused
from textassay.runtime.messages import Assignment, Example
from textassay.runtime.model import Capabilities
from textassay.runtime.settings import Settings
from textassay.tools.surface import Rouge
from textassay.tools.tool import tool

URL = "https://example.org/cat.png"
SHOWN = Example(
    id="x",
    source="What do both show?",
    images=[png_uri(), URL],
    output="Both show a cat.",
    meta={"output_b": "A dog."},
)


def judge(**options: Any) -> ScriptedModel:
    """A model that answers each method in its form."""

    def reply(request: Any) -> str:
        if "numbered list" in request.text:
            return "1. Cats: Both show cats.\n2. Dogs: No dog is shown."
        if '"quote"' in request.text:
            return json.dumps({"quote": "[Image 1]", "answer": "yes"})
        return "Score: 3"

    return ScriptedModel(reply, **options)


METHODS: dict[str, dict[str, Any]] = {
    "llm-score": {},
    "g-eval": {"n": 2},
    "hd-eval": {},
    "checklist": {},
    "claims": {},
    "pairwise": {},
    "decomp-eval": {},
    "coascore": {},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("aspect", ["consistency", "fluency"])
async def test_every_method_shows_the_images_with_the_texts(method: str, aspect: str) -> None:
    """Where the source is shown, and only there: the text names them by number."""
    model = judge()
    built = build(method, model, task="summarization", aspects=[aspect], options=METHODS[method])
    await built.graph.run(Assignment(example=SHOWN, aspects=built.aspects))
    about = [r for r in model.requests if "numbered list" not in r.text]
    assert about
    for request in about:
        assert request.images == SHOWN.images
        assert "[Image 1] [Image 2]" in request.text
    for request in model.requests:
        assert bool(request.images) == ("[Image 1]" in request.text)


async def test_an_image_may_be_quoted_as_evidence() -> None:
    model = judge()
    built = build("claims", model, task="summarization", aspects=["consistency"])
    (score,) = await built.graph.run(Assignment(example=SHOWN, aspects=built.aspects))
    assert score.evidence[0]["found_in"] == "Image 1"
    assert "an image is quoted by its number" in model.requests[-1].text
    beside = Example(**{**SHOWN.model_dump(exclude={"id", "context"}), "context": ["A cat."]})
    await built.graph.run(Assignment(example=beside, aspects=built.aspects))
    assert "Context (an image is quoted by its number" in model.requests[-1].text
    built = build("checklist", model, task="summarization", aspects=["consistency"])
    await built.graph.run(Assignment(example=beside, aspects=built.aspects))
    note = "(no evidence: quote another text; an image is quoted by its number, such as [Image 1])"
    assert note in model.requests[-1].text


@pytest.mark.parametrize(
    ("method", "capabilities", "words"),
    [
        ("llm-score", Capabilities(), "the model judge accepts only texts"),
        ("gptscore", Capabilities(continuation=True), "the method gptscore accepts only texts"),
        ("agent-judge", Capabilities(images=True), "the method agent-judge accepts only texts"),
    ],
)
async def test_images_that_no_judge_would_see_are_refused_before_anything_is_asked(
    method: str, capabilities: Capabilities, words: str, tmp_path: Path
) -> None:
    model = judge(name="judge", capabilities=capabilities)
    wanted = {"task": "summarization", "aspects": ["fluency"], "out": tmp_path / "run"}
    with pytest.raises(CapabilityError, match=words):
        await evaluate([SHOWN], method=method, model=model, **wanted)
    assert model.requests == []
    assert not (tmp_path / "run").exists()


async def test_a_model_that_does_not_say_that_it_takes_images_is_never_sent_any() -> None:
    """Also by a graph of the user's own: it might leave them out silently."""
    model = judge(capabilities=Capabilities())
    built = build("llm-score", model, task="summarization", aspects=["fluency"])
    with pytest.raises(CapabilityError, match="accepts only texts, and an example has images"):
        await built.graph.run(Assignment(example=SHOWN, aspects=built.aspects))
    assert model.requests == []


async def test_a_model_that_refuses_images_stops_the_run() -> None:
    asked = 0

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        said = {"message": "image_url is only supported by certain models."}
        return web.json_response({"error": said}, status=400)

    rows = [{"id": f"x{n}", "output": "A cat.", "image": URL} for n in range(50)]
    async with listening(refuse) as url:
        with pytest.raises(ImagesRefused, match="use one that does"):
            await evaluate(
                rows, method="llm-score", model="direct/m", aspects=["fluency"],
                settings=Settings(api_base=url, concurrency=1),
            )  # fmt: skip
    assert asked <= 2


async def test_a_tool_that_would_read_the_mark_of_an_image_as_a_text_abstains() -> None:
    @tool(description="Length of the source.", needs=("source",))
    def length(example: Example) -> float:
        return float(len(example.source or ""))

    (score,) = [await length.score(SHOWN)]
    assert score.error is not None
    assert score.error.type == "HasImages"
    assert (await Rouge().score(SHOWN.model_copy(update={"references": ("Cats.",)}))).value


async def test_a_run_is_cached_and_resumed_by_what_the_files_hold(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"id": "x", "output": "A cat.", "image": "a.png"}))
    (tmp_path / "a.png").write_bytes(png(11))
    run: dict[str, Any] = {"method": "llm-score", "aspects": ["fluency"]}
    run["settings"] = Settings(cache=tmp_path / "cache")
    first = judge()
    await evaluate(data, model=first, out=tmp_path / "run", **run)
    assert len(first.requests) == 1
    recorded = json.loads((tmp_path / "run" / "manifest.json").read_text())["data"]
    digest = hashlib.sha256(png(11)).hexdigest()
    assert (recorded["images"], recorded["image_files"]) == (1, {"a.png": digest})
    again = judge()
    await evaluate(data, model=again, **run)
    assert again.requests == []
    exchanges = [one async for one in exchanges_of_run(tmp_path / "run")]
    assert exchanges[0].prompt[0] == {"role": "images", "content": "Image 1: a.png"}
    (tmp_path / "a.png").write_bytes(png(12))
    changed = judge()
    await evaluate(data, model=changed, **run)
    assert len(changed.requests) == 1
    with pytest.raises(ConfigurationError, match="data"):
        await evaluate(data, model=changed, out=tmp_path / "run", resume=True, **run)


def test_a_judge_of_images_is_compared_with_people(tmp_path: Path) -> None:
    """Data like the skin lesions of the alternative annotator test: images, raters, a judge."""
    truths = {png_uri(n): n % 4 + 1 for n in range(60)}
    rows = [
        {"id": f"lesion-{n}", "output": "Rate the asymmetry.", "image": uri,
         "annotators": {"asymmetry": [truth, truth, min(4, truth + (n % 5 == 0))]}}
        for n, (uri, truth) in enumerate(truths.items())
    ]  # fmt: skip
    data = tmp_path / "lesion.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    model = ScriptedModel(lambda request: f"Score: {truths[request.images[0].place]}")
    aspect = Aspect(name="asymmetry", definition="How asymmetric the lesion is.", scale=(1, 4))
    evaluate_sync(data, method="llm-score", model=model, aspects=[aspect], out=tmp_path / "run")
    done = textassay("alt-test", tmp_path / "run", data, "--rows-independent", "--json")
    (row,) = json.loads(done.out)["rows"]
    assert (row["n"], row["omega"]) == (60, 1)


def test_a_report_embeds_small_images_and_links_to_addresses(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(png() + bytes(MAX_IMAGE))
    row = {"id": "x", "output": "A cat.", "images": [png_uri(), URL, "large.png"]}
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(row))
    evaluate_sync(data, method="llm-score", model=judge(), aspects=["fluency"],
                  out=tmp_path / "run")  # fmt: skip
    write_report([tmp_path / "run"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    (packed,) = re.findall(r'<script type="text/plain" class="block">(.*?)</script>', page, re.S)
    block = json.loads(gzip.decompress(base64.b64decode(packed)))
    shown = [(label, block["texts"][at]) for label, at in block["examples"][0]["images"]]
    assert shown[:2] == [("Image 1", png_uri()), ("Image 2", URL)]
    assert shown[2] == ("Image 3", "large.png (not shown here: 2,000 kB)")
    assert "Image 2: https://example.org/cat.png" in textassay("show", tmp_path / "run", "x").out


def test_raters_see_the_images(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="some examples have images"):
        write("csv", [SHOWN], load("general"), tmp_path)
    study = Study([SHOWN], load("general"))
    item = study.browser_item(study.keys[0])
    assert item["images"] == [
        {"label": "Image 1", "text": png_uri()}, {"label": "Image 2", "text": URL}
    ]  # fmt: skip
