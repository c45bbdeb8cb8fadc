"""Marks tests that ask the embedded model, SmolLM2-135M-Instruct."""

from importlib.util import find_spec

import pytest

from textassay.runtime.backends.local.llamacpp import EMBEDDED_MODEL

MISSING = [name for name in ("llama_cpp", EMBEDDED_MODEL.package) if find_spec(name) is None]
needs_embedded = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make .venv/llamacpp)"
)
