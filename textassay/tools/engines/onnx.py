"""The engine of the extra `onnx`: onnxruntime and tokenizers, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.engine import Array, Encoding, Head, Tokenizer, longest_input, pad
from textassay.tools.engines.extras import need
from textassay.tools.engines.files import ModelFiles

# Names as optimum and older exporters write them, with the number of axes that they must have.
_OUTPUTS: dict[Head, tuple[tuple[str, ...], int]] = {
    "classify": (("logits",), 2),
    "encode": (("last_hidden_state", "token_embeddings", "hidden_states"), 3),
}


class OnnxEngine:
    """An exported graph in onnxruntime, on a GPU when its build and the machine have one."""

    name = "onnx"

    def __init__(
        self, files: ModelFiles, head: Head, *, device: str = "auto", layer: int | None = None
    ) -> None:
        """Read the graph into memory.

        `device` is `cpu` or `cuda`; `auto` takes a GPU when there is one.
        """
        runtime = need("onnxruntime", extra="onnx", what="the onnx engine")
        if head not in _OUTPUTS:
            raise ConfigurationError(
                "encoder-decoder models need the transformers engine: pip install 'textassay[nli]'"
            )
        if layer is not None:
            raise ConfigurationError(
                "an ONNX export contains the last layer only; leave `layer` out or use transformers"
            )
        if files.onnx is None:
            raise ConfigurationError(
                f"{str(files.folder)!r} contains no model.onnx; export one with `optimum-cli export"
                " onnx`, or use engine=transformers"
            )
        self.files, self.head = files, head
        self.config: Mapping[str, Any] = files.config
        self.tokenizer = _tokenizer(files)
        self.session = _session(runtime, files, device)
        self._inputs = {i.name for i in self.session.get_inputs()}
        self._output = self._find_output()
        self.max_tokens = longest_input(files)
        self._pad_id = int(files.config.get("pad_token_id") or 0)

    def run(self, batch: Sequence[Encoding]) -> list[Array]:
        """Answer a batch; see `Engine.run`."""
        feed = {
            name: matrix
            for name, matrix in pad(batch, self._pad_id).items()
            if name in self._inputs
        }
        output = np.asarray(self.session.run([self._output], feed)[0], dtype=np.float32)
        if self.head == "encode":
            return [output[row, : len(encoding)] for row, encoding in enumerate(batch)]
        return list(output)

    def _find_output(self) -> str:
        names, rank = _OUTPUTS[self.head]
        outputs = {o.name: o for o in self.session.get_outputs()}
        output = next((outputs[name] for name in names if name in outputs), None)
        needs = {"input_ids", "attention_mask"}
        if output is None or len(output.shape) != rank:
            raise ConfigurationError(
                f"{str(self.files.onnx)!r} has the outputs {', '.join(outputs)}, but {names[0]}"
                f" with {rank} axes is needed"
            )
        if not needs <= self._inputs:
            raise ConfigurationError(
                f"{str(self.files.onnx)!r} does not take {', '.join(sorted(needs - self._inputs))};"
                " export it again"
            )
        return str(output.name)


def _tokenizer(files: ModelFiles) -> Tokenizer:
    tokenizers = need("tokenizers", extra="onnx", what="the onnx engine")
    path = files.folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigurationError(
            f"{str(files.folder)!r} contains no tokenizer.json, which the onnx engine needs"
        )
    try:
        return Tokenizer(tokenizers.Tokenizer.from_file(str(path)))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise ConfigurationError(f"cannot read {str(path)!r}: {error}") from error


def _session(runtime: Any, files: ModelFiles, device: str) -> Any:
    available = runtime.get_available_providers()
    gpu = "CUDAExecutionProvider"
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigurationError(
            f"device {device!r} cannot be used with the onnx engine; known: auto, cpu, cuda"
        )
    if device == "cuda" and gpu not in available:
        raise ConfigurationError(
            "this build of onnxruntime has no CUDA: pip install onnxruntime-gpu"
        )
    # The CPU stays behind it: operators that the GPU's provider lacks run there.
    providers = [gpu] if device != "cpu" and gpu in available else []
    try:
        return runtime.InferenceSession(
            str(files.onnx), providers=[*providers, "CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors share no base of their own
        raise ConfigurationError(f"cannot read {str(files.onnx)!r}: {error}") from error
