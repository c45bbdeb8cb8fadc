"""Tiny models, made once and shared by the tests of the model tools."""

import warnings

import pytest

from tests.tools import tiny


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folder with `nli` and `encoder` (weights and ONNX), `nli-onnx` (export only) and `t5`."""
    tiny.need("torch", "transformers", "onnxruntime", "onnx")
    root = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter is full of notes to itself
        for name, make, output in (
            ("nli", tiny.nli, "logits"),
            ("encoder", tiny.encoder, "last_hidden_state"),
        ):
            (root / name).mkdir()
            tiny.export(make(root / name), root / name, output)
        (root / "t5").mkdir()
        tiny.t5(root / "t5")
    (root / "nli-onnx").mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.onnx"):
        (root / "nli-onnx" / file).write_bytes((root / "nli" / file).read_bytes())
    return root
