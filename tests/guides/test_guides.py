"""Every code block of the README and of the guides runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.batch_server import batches_served
from tests.guides.pages import ELSEWHERE, reader_of
from tests.guides.running import PAGES, blocks_of, indented, write_folder


@pytest.fixture(scope="module")
def server():
    with batches_served() as running:
        yield running


@pytest.fixture(scope="module")
def template(tmp_path_factory, server) -> Path:
    folder = tmp_path_factory.mktemp("guides")
    write_folder(folder, server.url)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page, template, server, tmp_path, monkeypatch):
    """In order, in one folder. A block that needs an extra that is not installed is named."""
    folder = tmp_path / "reader"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    skipped = []
    with reader_of(page.name, folder, server.url, monkeypatch) as reader:
        for block in blocks_of(page):
            if (page.name, block.language) in ELSEWHERE:
                continue
            try:
                reader.run(block)
            except pytest.skip.Exception as why:
                skipped.append(f"{block}: {why}")
    if skipped:
        pytest.skip("; ".join(skipped))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_fenced(page):
    """So that none is overlooked."""
    assert indented(page) == []


def test_blocks_that_run_elsewhere_exist_there():
    """The tests that run blocks of pages of their own."""
    for test in ELSEWHERE.values():
        assert (Path(__file__).parents[2] / test).is_file()
