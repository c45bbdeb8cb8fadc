"""The README's Python example runs as it stands."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from examples.mock_server import MockServer

ROOT = Path(__file__).parents[1]


@pytest.mark.asyncio
async def test_python_example(
    mock_server: Callable[..., Awaitable[MockServer]], tmp_path: Path
) -> None:
    """The code block, against a server on this machine in place of the provider."""
    import asyncio

    code = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )[0]
    row = {"output": "A summary of the text.", "source": "A text that is longer than its summary."}
    (tmp_path / "data.jsonl").write_text(json.dumps(row), encoding="utf-8")
    server = await mock_server()
    known = {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": server.url, "PYTHONPATH": str(ROOT)}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 scored" in done.stdout
    assert (tmp_path / "runs" / "first" / "scores.jsonl").exists()
