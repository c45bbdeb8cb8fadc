"""The pictures of the documentation can be taken again, and docs/images holds no others."""

from pathlib import Path

from tests.report.gallery import PICTURES, judged, take
from textassay import ScriptedModel

ROOT = Path(__file__).parents[2]
MAX_BYTES = 150_000
SIZES = {"terminal": (900, 760), "report-phone": (390, 800), "annotate-phone": (390, 800)}


def test_every_picture_is_taken(browser, tmp_path):
    """Of the report, the viewer and the annotation page, each as large as its screen."""
    model = ScriptedModel(lambda asked: f"Rating: {1 + len(asked.text) % 5}")
    run = judged(tmp_path, model, n=2)
    (tmp_path / "pictures").mkdir()
    take(browser, tmp_path / "pictures", run, tmp_path)
    for name in PICTURES:
        head = (tmp_path / "pictures" / name).read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        width, height = (int.from_bytes(head[at : at + 4]) for at in (16, 20))
        assert (width, height) == SIZES.get(name.partition(".")[0], (1280, 800))


def test_the_pictures_of_the_docs_are_there_and_small():
    """Each that the script takes, in the gallery, and none that nobody can take again."""
    images = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").glob("*.png")}
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert set(images) == set(PICTURES)
    assert [name for name in PICTURES if f"(images/{name})" not in page] == []
    assert {name: size for name, size in images.items() if size > MAX_BYTES} == {}
