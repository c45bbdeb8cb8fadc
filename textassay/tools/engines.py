"""Models of the tools: their files, the base of engines, and the three engines.

A model is a folder or a pinned revision on the Hugging Face Hub. An engine turns batches of tokens
into arrays. `OnnxEngine` runs exported graphs, `StaticEngine` looks a vector up for each token,
`PytorchEngine` runs models of transformers; frameworks are imported when one is opened.

`PytorchEngine` also reads published BLEURT checkpoints (Sellam et al. 2020; Pu et al. 2021) in
transformers classes. BLEURT-20 and its distilled sizes are RemBERT: embeddings narrower than the
layers, with a projection between; the older ones are plain BERT. Both end in a pooled first token
and one linear output. The converted checkpoints on the Hub differ in the names of their parameters
alone (`bleurt.encoder.embedding_projection.weight`, ...), which are mapped while they are read.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.files import download, file_digest, hub_repository
from textassay.runtime.backends.local.transformers import (
    ENCODER,
    device_named,
    quiet,
    read_tokenizer,
    read_weights,
    unreadable,
)
from textassay.runtime.errors import ConfigurationError, ModelError
from textassay.tools.tool import need

PACKAGED_VECTORS = "wordllama"
"""Package of the extra `static`, which has vectors."""

_TEXT_FILES = ("*.json", "*.txt", "*.model")


@dataclass(frozen=True)
class ModelFiles:
    """A folder with a model's configuration, tokenizer and weights."""

    folder: Path
    label: str
    """Name in signatures: the Hub id with its commit, or the folder's name."""
    config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)
    vectors: Path | None = None
    """The table of a static model; `None` for a network."""
    tokenizer_file: Path | None = None
    """The tokenizer of a static model."""

    @property
    def onnx(self) -> Path | None:
        """The ONNX graph, if there is one."""
        places = (self.folder / "model.onnx", self.folder / "onnx" / "model.onnx")
        return next((place for place in places if place.is_file()), None)

    @property
    def weights(self) -> list[Path]:
        """Weights that transformers reads, safetensors if there are any."""
        safe = sorted(self.folder.glob("*.safetensors"))
        return safe or sorted(self.folder.glob("pytorch_model*.bin"))

    def digest(self) -> str:
        """Return 12 hex digits that change with configuration, tokenizer and weights."""
        total = hashlib.sha256()
        texts = [p for pattern in _TEXT_FILES for p in sorted(self.folder.glob(pattern))]
        named = filter(None, (self.vectors, self.tokenizer_file, self.onnx))
        for path in dict.fromkeys((*texts, *self.weights, *named)):
            total.update(f"{path.name}\0{file_digest(path)}\0".encode())
        return total.hexdigest()[:12]


def locate(model: str, *, engine: str = "auto", cached_only: bool = False) -> ModelFiles:
    """Return the files of a model, fetched from the Hub if needed, unless `cached_only`.

    `model` is a folder, `organization/name@revision` on the Hub, or `wordllama` for the vectors of
    that package; `engine` selects the weights to fetch, by default for transformers.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return read_folder(folder, folder.resolve().name)
    if model == PACKAGED_VECTORS:
        return load_packaged_vectors()
    place = hub_repository(model)
    if not place:
        raise ConfigurationError(
            f"no model at {model!r}: it is neither a folder nor a Hub id such as"
            " organization/name@revision"
        )
    repository, revision = place
    fetched = _fetch(repository, revision, engine, cached_only=cached_only)
    # the cache names the folder of a snapshot after its commit
    return read_folder(fetched, f"{repository}@{fetched.name[:12]}")


def on_hub(model: str) -> bool:
    """Return whether a model's name is a Hub id rather than a folder."""
    return model != PACKAGED_VECTORS and hub_repository(model) is not None


def read_folder(folder: Path, label: str) -> ModelFiles:
    """Return the files in a folder, or raise `ConfigurationError` if it is not one of a model."""
    nested = folder / "0_StaticEmbedding"  # where sentence-transformers puts a table
    if (nested / "model.safetensors").is_file():
        config = read_json(folder / "config_sentence_transformers.json")
        table = nested / "model.safetensors", nested / "tokenizer.json"
        return ModelFiles(folder, label, config, {}, *table)
    if not folder.is_dir() or not (folder / "config.json").is_file():
        raise ConfigurationError(
            f"{str(folder)!r} is not a model: expected a folder with config.json, weights and"
            " tokenizer, as `save_pretrained` or `hf download` leave it"
        )
    config, modules = read_json(folder / "config.json"), folder / "modules.json"
    static = config.get("model_type") == "model2vec" or (
        modules.is_file() and b"StaticEmbedding" in modules.read_bytes()
    )
    tokenizer = read_json(folder / "tokenizer_config.json")
    if not static:
        return ModelFiles(folder, label, config, tokenizer)
    table = folder / "model.safetensors", folder / "tokenizer.json"
    return ModelFiles(folder, label, config, tokenizer, *table)


def load_packaged_vectors() -> ModelFiles:
    """Return the vectors of the package wordllama, whose code is not run."""
    spec = find_spec(PACKAGED_VECTORS)
    if not spec or not spec.origin:
        raise ConfigurationError(
            f"the vectors of {PACKAGED_VECTORS!r} are not installed: pip install"
            " 'textassay[static]'"
        )
    folder = Path(spec.origin).parent
    vectors = sorted((folder / "weights").glob("*.safetensors"))
    tokenizers = sorted((folder / "tokenizers").glob("*.json"))
    if len(vectors) != 1 or len(tokenizers) != 1:
        raise ConfigurationError(
            f"{str(folder)!r} does not contain one table and one tokenizer; this release of "
            f"{PACKAGED_VECTORS} is laid out differently: pip install 'textassay[static]'"
        )
    label = f"{PACKAGED_VECTORS}-{version(PACKAGED_VECTORS)}"
    return ModelFiles(folder, label, vectors=vectors[0], tokenizer_file=tokenizers[0])


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; empty if there is no file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigurationError(f"{str(path)!r} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{str(path)!r} is not a JSON object")
    return content


def _fetch(repository: str, revision: str | None, engine: str, *, cached_only: bool) -> Path:
    snapshot = partial(
        download,
        repository,
        revision=revision,
        cached_only=cached_only,
        package=f"'textassay[{'onnx' if engine == 'onnx' else 'nli'}]'",
    )
    try:
        if engine == "onnx":
            graphs = ("model.onnx", "model.onnx_data", "onnx/model.onnx", "onnx/model.onnx_data")
            return snapshot(patterns=(*_TEXT_FILES, *graphs))
        # in two steps: repositories often have the same weights in both formats, gigabytes each
        folder = snapshot(patterns=(*_TEXT_FILES, "*.safetensors"))
        if any(folder.rglob("*.safetensors")):
            return folder
        return snapshot(patterns=("pytorch_model*.bin",))
    except ModelError as error:
        at = f" --revision {revision}" if revision else ""
        reason = str(error.__cause__).partition("\n")[0] or type(error.__cause__).__name__
        raise ConfigurationError(
            f"the model {repository!r} is not on this machine and could not be fetched ({reason});"
            f" fetch it where there is a network with `hf download {repository}{at}`, or give"
            " a folder that contains it instead"
        ) from error


EngineName = Literal["auto", "transformers", "onnx", "static"]
"""`auto` takes `static` for a table of vectors, `onnx` if transformers is not installed or the
folder has an ONNX export only, else `transformers`."""

Head = Literal["classify", "encode", "answer", "likelihood"]
"""Output of a model: logits of labels, hidden states of tokens, logits of an answer's first token,
or log-probabilities of the tokens of a second text after a first."""

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or a pair, as tokens."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    """The segment of each token."""
    special: tuple[int, ...]
    """1 for tokens around the text, such as `[CLS]`, else 0."""

    @classmethod
    def plain(cls, ids: Iterable[int]) -> Encoding:
        """Return tokens of one segment without special tokens."""
        ids = tuple(ids)
        return cls(ids, (0,) * len(ids), (0,) * len(ids))

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """A fast tokenizer without truncation or padding; safe to use from several threads."""

    def __init__(self, backend: Any) -> None:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # a "[SEP]" inside an evaluated text is text
        self.backend = backend

    def encode(self, first: str, second: str | None = None) -> Encoding:
        """Return a text or pair of texts with the model's special tokens."""
        encoding = self.backend.encode(first, second)
        return Encoding(
            tuple(encoding.ids), tuple(encoding.type_ids), tuple(encoding.special_tokens_mask)
        )

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special ones."""
        return len(self.encode_plain(text))

    def encode_plain(self, text: str) -> list[int]:
        """Return the tokens of a text without special ones."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def special_tokens(self, *, pair: bool) -> int:
        """Return the number of special tokens around a text, or in a pair."""
        return int(self.backend.num_special_tokens_to_add(pair))

    @property
    def unknown(self) -> int | None:
        """The vocabulary's unknown token, if it has one."""
        model = self.backend.model
        if named := getattr(model, "unk_token", None):
            return self.backend.token_to_id(named)  # type: ignore[no-any-return]
        return getattr(model, "unk_id", None)


class ToolEngine(ABC):
    """A loaded model, for a work queue."""

    name: ClassVar[str]
    """`transformers`, `onnx` or `static`."""
    extra: ClassVar[str]
    """Extra of the package that brings its modules."""
    modules: ClassVar[tuple[str, ...]]
    """Modules that it imports."""
    tokenizer: Tokenizer

    def __init__(self, files: ModelFiles, head: Head) -> None:
        self.files, self.head = files, head
        self.config = files.config
        """The model's `config.json`."""
        self.label = files.label
        """Name of the model in signatures, with commit or digest and engine once it is opened."""
        self.max_tokens = longest_input(files)
        """Longest input in tokens, special ones included; `None` if the model has no limit."""
        self._pad_id = int(files.config.get("pad_token_id") or 0)

    @abstractmethod
    def evaluate(self, batch: Sequence[Encoding]) -> list[Array]:
        """Return one array per input, in order.

        Its shape is `(labels,)` for `classify`, `(tokens, width)` for `encode`, `(vocabulary,)` for
        `answer`, and `(tokens of the second text,)` for `likelihood`, whose segments are 0 for the
        text that the encoder reads and 1 for the text that is scored.
        """

    def prepare(self, encoding: Encoding) -> Encoding:
        """Return the input, as tools tokenize."""
        return encoding

    def run(self, batch: Sequence[Encoding], _: Callable[[], bool]) -> list[Array]:
        """Evaluate a batch, which cannot be stopped."""
        return self.evaluate(batch)

    def close(self) -> None:  # noqa: B027
        """Do nothing: the memory is freed with the last reference."""

    def _unpad(self, output: Array, batch: Sequence[Encoding]) -> list[Array]:
        """Return the output of each input in a padded batch."""
        if self.head == "encode":
            return [output[row, : len(encoding)] for row, encoding in enumerate(batch)]
        return list(output)


def labels(config: Mapping[str, Any]) -> dict[int, str]:
    """Return the labels of a classifier by index, from `id2label`; empty without any."""
    return {int(index): str(label) for index, label in (config.get("id2label") or {}).items()}


def longest_input(files: ModelFiles) -> int | None:
    """Return the longest input of a model in tokens; `None` if its files have no limit."""
    limits = [files.tokenizer_config.get("model_max_length")]
    positions = files.config.get("max_position_embeddings")
    after_padding = (
        "roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "data2vec-text", "ibert",
    )  # fmt: skip
    if isinstance(positions, int) and files.config.get("model_type") in after_padding:
        # RoBERTa counts positions from after the padding's id: 514 positions are 512 tokens
        positions -= int(files.config.get("pad_token_id") or 0) + 1
    limits.append(positions)
    # "no limit" is written as a huge number
    finite = [
        int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < 10**6
    ]
    return min(finite, default=None)


def pad(batch: Sequence[Encoding], pad_id: int) -> dict[str, NDArray[np.int64]]:
    """Return a batch as arrays of shape `(batch, longest)`; the mask leaves padding out."""
    shape = (len(batch), max(map(len, batch)))
    ids, (mask, types) = np.full(shape, pad_id, np.int64), np.zeros((2, *shape), np.int64)
    for row, encoding in enumerate(batch):
        ids[row, : len(encoding)] = encoding.ids
        types[row, : len(encoding)] = encoding.types
        mask[row, : len(encoding)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


# names in exports of optimum and older exporters, with the number of axes that they must have
_OUTPUTS: dict[Head, tuple[tuple[str, ...], int]] = {
    "classify": (("logits",), 2),
    "encode": (("last_hidden_state", "token_embeddings", "hidden_states"), 3),
}


class OnnxEngine(ToolEngine):
    """An exported graph in onnxruntime, on a GPU when its build and the machine have one."""

    name = extra = "onnx"
    modules = ("onnxruntime", "tokenizers")

    def __init__(
        self, files: ModelFiles, head: Head, *, device: str = "auto", layer: int | None = None
    ) -> None:
        """`device` is `cpu` or `cuda`; `auto` uses a GPU if there is one."""
        super().__init__(files, head)
        runtime = need("onnxruntime", extra="onnx", what="the onnx engine")
        if head not in _OUTPUTS:
            raise ConfigurationError(
                "encoder-decoder models need the transformers engine: pip install 'textassay[nli]'"
            )
        if layer is not None:
            raise ConfigurationError(
                "an ONNX export contains the last layer only; leave `layer` out or use transformers"
            )
        if not files.onnx:
            raise ConfigurationError(
                f"{str(files.folder)!r} contains no model.onnx; export one with `optimum-cli export"
                " onnx`, or use engine=transformers"
            )
        self.tokenizer = Tokenizer(_read_tokenizer(files.folder / "tokenizer.json", extra="onnx"))
        self.session = _session(runtime, files, device)
        self._inputs = {i.name for i in self.session.get_inputs()}
        self._output = self._find_output()

    def evaluate(self, batch: Sequence[Encoding]) -> list[Array]:
        padded = pad(batch, self._pad_id)
        feed = {name: padded[name] for name in padded.keys() & self._inputs}
        output = np.asarray(self.session.run([self._output], feed)[0], dtype=np.float32)
        return self._unpad(output, batch)

    def _find_output(self) -> str:
        names, rank = _OUTPUTS[self.head]
        outputs = {o.name: o for o in self.session.get_outputs()}
        output = next((outputs[name] for name in names if name in outputs), None)
        needs = {"input_ids", "attention_mask"}
        if not output or len(output.shape) != rank:
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


def _read_tokenizer(path: Path, *, extra: str) -> Any:
    """Return a `tokenizers.Tokenizer` for the engine with the name of the extra."""
    tokenizers = need("tokenizers", extra=extra, what=f"the {extra} engine")
    if not path.is_file():
        raise ConfigurationError(
            f"{str(path.parent)!r} contains no {path.name}, which the {extra} engine needs"
        )
    try:
        return tokenizers.Tokenizer.from_file(str(path))
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
    # the CPU runs operators that the GPU's provider lacks
    providers = [gpu] if device != "cpu" and gpu in available else []
    try:
        return runtime.InferenceSession(
            str(files.onnx), providers=[*providers, "CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors share no base of their own
        raise ConfigurationError(f"cannot read {str(files.onnx)!r}: {error}") from error


class StaticTokenizer(Tokenizer):
    """A tokenizer without special tokens, which leaves out unknown ones."""

    def encode(self, first: str, second: str | None = None) -> Encoding:
        """Return the tokens of a text; a pair is refused."""
        if second is not None:
            raise ConfigurationError("static vectors embed single texts and cannot judge pairs")
        unknown = self.unknown
        return Encoding.plain(token for token in self.encode_plain(first) if token != unknown)

    def special_tokens(self, *, pair: bool) -> int:
        return 0


class StaticEngine(ToolEngine):
    """A vector per token from a table, with numpy and tokenizers.

    Reads folders of model2vec and sentence-transformers' StaticEmbedding, and the vectors of the
    package wordllama (MIT, 16 MB). A token's vector does not depend on its context, so the length
    of texts has no limit.
    """

    name = extra = "static"
    modules = ("tokenizers", "safetensors")

    def __init__(
        self, files: ModelFiles, head: Head, *, device: str = "auto", layer: int | None = None
    ) -> None:
        if head != "encode" or layer is not None:
            raise ConfigurationError(
                f"{files.label} is a table of static vectors: it embeds texts (the tool"
                " `embedding`) and has neither layers nor a head that judges"
            )
        if device not in ("auto", "cpu"):
            raise ConfigurationError(f"static vectors are read on the CPU, not on {device!r}")
        super().__init__(files, head)
        self.max_tokens = None
        assert files.tokenizer_file  # each table has one
        self.tokenizer = StaticTokenizer(_read_tokenizer(files.tokenizer_file, extra="static"))
        safetensors = need("safetensors.numpy", extra="static", what="the static engine")
        try:
            tensors = safetensors.load_file(str(files.vectors))
        except Exception as error:  # safetensors' errors share no base of their own
            raise ConfigurationError(f"cannot read {str(files.vectors)!r}: {error}") from error
        names = ("embeddings", "embedding.weight")
        tables = [tensors[name] for name in names if name in tensors]
        if not tables or tables[0].ndim != 2:
            raise ConfigurationError(
                f"{str(files.vectors)!r} contains no table of vectors: expected a matrix called"
                f" {' or '.join(names)}"
            )
        self._table = tables[0]
        # model2vec may keep a shared row for several tokens, and weigh each token separately
        self._rows, self._weights = tensors.get("mapping"), tensors.get("weights")

    def evaluate(self, batch: Sequence[Encoding]) -> list[Array]:
        return [self._vectors(np.array(encoding.ids, np.intp)) for encoding in batch]

    def _vectors(self, ids: NDArray[np.intp]) -> Array:
        rows = ids if self._rows is None else self._rows[ids].astype(np.intp)
        vectors: Array = self._table[rows].astype(np.float32)
        if self._weights is not None:
            vectors *= self._weights[ids, None].astype(np.float32)
        return vectors


_DEFAULTS = {"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_labels": 1}
_HEADS: dict[Head, tuple[str, str]] = {
    "classify": ("AutoModelForSequenceClassification", "a sequence-classification head"),
    "encode": ("AutoModel", ENCODER),
    "answer": ("AutoModelForSeq2SeqLM", "an encoder and a decoder"),
    "likelihood": ("AutoModelForSeq2SeqLM", "an encoder and a decoder"),
}
"""The transformers class for a head, and the parts that a model needs for it."""
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""The first two are the inputs of encoder-decoder models."""


def load_bleurt(transformers: Any, files: ModelFiles, **options: Any) -> Any:
    """Return the regressor: a RemBERT or BERT sequence classifier with the checkpoint's weights."""
    settings, narrow = _settings(transformers, files), files.config.get("embedding_size")
    kind, names = "Bert", {r"^bleurt\.": "bert."}
    if narrow is not None:
        settings |= {"input_embedding_size": int(narrow), "output_embedding_size": int(narrow)}
        projection = "rembert.encoder.embedding_hidden_mapping_in"
        names = {r"^bleurt\.encoder\.embedding_projection": projection, r"^bleurt\.": "rembert."}
        kind = "RemBert"
    model, report = getattr(transformers, f"{kind}ForSequenceClassification").from_pretrained(
        files.folder,
        config=getattr(transformers, f"{kind}Config")(**settings),
        key_mapping=names,
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported below
        **options,
    )
    _check_loaded(report, files.label)
    return model


def _check_loaded(report: Mapping[str, Any], label: str) -> None:
    """Refuse a checkpoint unless exactly the parameters of the model were read from it."""
    # older files have position_ids, a buffer
    unknown = (name for name in report["unexpected_keys"] if not name.endswith("position_ids"))
    faults = [
        *(f"{name} is missing" for name in sorted(report["missing_keys"])),
        *(f"{name} is unknown" for name in sorted(unknown)),
        *(
            f"{name} has shape {tuple(theirs)} rather than {tuple(ours)}"
            for name, theirs, ours in sorted(report["mismatched_keys"])
        ),
    ]
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise ConfigurationError(
            f"the weights of {label} do not fit a BLEURT regressor: {'; '.join(faults[:3])}{more}"
        )


def _settings(transformers: Any, files: ModelFiles) -> dict[str, Any]:
    """Return the fields of `config.json` for `BertConfig` and `RemBertConfig`, checked."""
    config = {**_DEFAULTS, "hidden_act": "gelu", **files.config}
    # no defaults for these: a wrong size would only show as a parameter of another shape
    sizes = (
        "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
        "vocab_size",
    )  # fmt: skip
    try:
        settings: dict[str, Any] = {name: int(config[name]) for name in sizes}
    except (KeyError, TypeError, ValueError) as error:
        message = f"config.json of {files.label} is missing a size: {error}"
        raise ConfigurationError(message) from None
    width, heads = settings["hidden_size"], settings["num_attention_heads"]
    if width % heads:
        raise ConfigurationError(
            f"config.json of {files.label}: hidden_size {width} is not a multiple of {heads} heads"
        )
    functions, activation = transformers.activations.ACT2FN, str(config["hidden_act"])
    if activation not in functions:
        raise ConfigurationError(
            f"unknown activation {activation!r} in config.json; known: {', '.join(functions)}"
        )
    optional = (*_DEFAULTS, "hidden_act", "type_vocab_size")
    return settings | {name: config[name] for name in optional if name in config}


def _segments(encoding: Encoding) -> tuple[Encoding, Encoding]:
    """Return the two texts of an encoding."""
    cut = encoding.types.index(1)
    return Encoding.plain(encoding.ids[:cut]), Encoding.plain(encoding.ids[cut:])


class PytorchEngine(ToolEngine):
    """A model in PyTorch, in single precision."""

    name, extra = "transformers", "nli"
    modules = ("torch", "transformers")

    def __init__(
        self, files: ModelFiles, head: Head, *, device: str = "auto", layer: int | None = None
    ) -> None:
        """`device` is `cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes a GPU when there is one.

        `encode` returns the states of `layer`, 0 being the embeddings; of the last if `None`.
        """
        super().__init__(files, head)
        self.torch = need("torch", extra="nli", what="the transformers engine")
        self.transformers = need("transformers", extra="nli", what="the transformers engine")
        self.layer, self._is_bleurt = layer, files.config.get("model_type") == "bleurt"
        self._place = repr(str(files.folder))
        self.device = device_named(self.torch, device)
        with quiet(self.transformers):
            self.tokenizer, self._input_names = self._tokenizer()
            # evaluation mode, as dropout would change every score
            self.model = self._model().to(self.device).eval()

    def evaluate(self, batch: Sequence[Encoding]) -> list[Array]:
        with self.torch.inference_mode():
            if self.head == "likelihood":
                return self._likelihood(batch)
            names = _INPUTS[:2] if self.head == "answer" else self._input_names
            output = self._forward(self._inputs(batch, names)).float().cpu().numpy()
        return self._unpad(output, batch)

    def _inputs(self, batch: Sequence[Encoding], names: Iterable[str]) -> dict[str, Any]:
        padded = pad(batch, self._pad_id)
        return {name: self.torch.from_numpy(padded[name]).to(self.device) for name in names}

    def _likelihood(self, batch: Sequence[Encoding]) -> list[Array]:
        """Return the log-probabilities of the tokens of each second text."""
        parts = [_segments(encoding) for encoding in batch]
        inputs = self._inputs([first for first, _ in parts], _INPUTS[:2])
        targets = self._inputs([second for _, second in parts], ("input_ids",))["input_ids"]
        # each model shifts by its own rule (T5 begins with the padding, BART with the end mark)
        shifted = self.model.prepare_decoder_input_ids_from_labels(labels=targets)
        # the padding of a text follows its tokens, so that it does not change them
        logits = self.model(**inputs, decoder_input_ids=shifted).logits.float()
        logprobs = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0].cpu().numpy()
        return [logprobs[row, : len(second)] for row, (_, second) in enumerate(parts)]

    def _forward(self, inputs: dict[str, Any]) -> Any:
        if self.head == "classify":
            return self.model(**inputs).logits
        if self.head == "answer":
            shape = (len(inputs["input_ids"]), 1)
            start = self.model.config.decoder_start_token_id
            first = self.torch.full(shape, start, device=self.device)
            return self.model(**inputs, decoder_input_ids=first).logits[:, 0]
        if self.layer is None:
            return self.model(**inputs).last_hidden_state
        states = self.model(**inputs, output_hidden_states=True).hidden_states
        if not 0 <= self.layer < len(states):
            raise ConfigurationError(
                f"{self.files.label} has layers 0 to {len(states) - 1}, not {self.layer}"
            )
        return states[self.layer]

    def _tokenizer(self) -> tuple[Tokenizer, Sequence[str]]:
        folder, kind = self.files.folder, None
        fast = (folder / "tokenizer.json").is_file()
        if not fast and any(folder.glob("*.model")):
            need("sentencepiece", extra="nli", what=f"the tokenizer of {self.files.label}")
        if self._is_bleurt:  # transformers has no class of its name
            slow = "DebertaV2Tokenizer" if (folder / "spm.model").is_file() else "BertTokenizer"
            kind = getattr(self.transformers, "PreTrainedTokenizerFast" if fast else slow)
        tokenizer = read_tokenizer(self.transformers, folder, self._place, kind=kind)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not backend:
            raise ConfigurationError(
                f"the tokenizer of {self.files.label} has no fast form (tokenizer.json)"
            )
        names = _INPUTS if self._is_bleurt else tokenizer.model_input_names
        return Tokenizer(backend), [name for name in _INPUTS if name in names]

    def _model(self) -> Any:
        name, needs = _HEADS[self.head]
        single = self.torch.float32
        if not self._is_bleurt:
            kind = getattr(self.transformers, name)
            return read_weights(kind, self.files.folder, self._place, needs=needs, dtype=single)
        if self.head != "classify":
            raise ConfigurationError(
                f"{self.files.label} is a BLEURT regressor and has no use but `bleurt`"
            )
        try:
            return load_bleurt(self.transformers, self.files, dtype=single)
        except ConfigurationError:
            raise
        except Exception as error:  # the libraries raise arbitrary errors for a damaged file
            raise unreadable(needs, self._place, error) from error


ENGINES: dict[str, type[OnnxEngine | StaticEngine | PytorchEngine]] = {
    "auto": PytorchEngine,
    "transformers": PytorchEngine,
    "onnx": OnnxEngine,
    "static": StaticEngine,
}
"""Engines by name; `auto` has the default."""
