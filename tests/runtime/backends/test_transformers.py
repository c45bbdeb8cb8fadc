"""The backend of the transformers library, compared with plain forward passes of the models."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import shutil

import pytest

pytest.importorskip("torch", reason="needs the extra transformers (make extras)")
pytest.importorskip("transformers", reason="needs the extra transformers (make extras)")

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tests.runtime.backends.tiny_transformers import FAMILIES, save
from textassay.runtime.backends.local.transformers import TransformersModel
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ContextTooLong,
    ModelClosed,
    ModelNotFound,
    RequestRefused,
)
from textassay.runtime.model import ChatMessage, ChoicesRequest, ContinuationRequest, Request
from textassay.testing import MODEL_CHECKS

PROMPT = "question: how good is this text? answer:"
LONG = "the cat sat on the mat and the dog ran home. " * 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One model of each family."""
    made = {}
    for family in FAMILIES:
        made[family] = tmp_path_factory.mktemp(family)
        save(family, made[family])
    return made


@pytest.fixture(params=FAMILIES)
def folder(request, folders):
    """Each family in turn."""
    return folders[request.param]


def opened(folder, **options) -> TransformersModel:
    return TransformersModel(f"transformers/{folder.name}", str(folder), device="cpu", **options)


def plain(folder, prompt: str, text: str) -> list[float]:
    """Log-probabilities of the tokens of `text` by one forward pass without padding or cache."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        if folder.name.startswith("t5"):
            model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
            target = tokenizer(text, add_special_tokens=False).input_ids
            logits = model(
                input_ids=torch.tensor([tokenizer(prompt).input_ids]),
                decoder_input_ids=torch.tensor([[0, *target[:-1]]]),
            ).logits[0]
        else:
            model = AutoModelForCausalLM.from_pretrained(folder).eval()
            before, whole = tokenizer(prompt).input_ids, tokenizer(prompt + text).input_ids
            assert whole[: len(before)] == before
            target = whole[len(before) :]
            logits = model(torch.tensor([whole])).logits[0, len(before) - 1 : -1]
        found = logits.double().log_softmax(-1)
        return [float(row[token]) for row, token in zip(found, target, strict=True)]


CHATTING = "{% for m in messages %}{{ m.content }}\n{% endfor %}answer:"


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
async def test_every_family_passes_the_battery(folder, check, tmp_path):
    """That of all backends; one has a chat template, the others are asked by plain prompts."""
    if folder.name.startswith("llama"):
        shutil.copytree(folder, tmp_path / "llama")
        (tmp_path / "llama" / "chat_template.jinja").write_text(CHATTING)
        folder = tmp_path / "llama"
    await check(lambda: opened(folder))


async def test_continuations_equal_a_plain_forward_pass(folder):
    """Alone and in a batch of different lengths, to 1e-5 per token."""
    asked = [
        ContinuationRequest(prompt=prompt, continuation=text)
        for prompt in (PROMPT, LONG + PROMPT, LONG + "is it?")
        for text in (" yes", " no, it is not.", " The bridge opens in May")
    ]
    model = opened(folder)
    alone = [await model.continuation(one) for one in asked]
    together = await asyncio.gather(*(model.continuation(one) for one in asked))
    for request, first, second in zip(asked, alone, together, strict=True):
        expected = plain(folder, request.prompt, request.continuation)
        assert [t.logprob for t in first.tokens] == pytest.approx(expected, abs=1e-5)
        assert [t.logprob for t in second.tokens] == pytest.approx(expected, abs=1e-5)
        assert "".join(t.token for t in first.tokens).strip() == request.continuation.strip()
    await model.aclose()


@pytest.mark.parametrize(("dtype", "near"), [("bfloat16", 0.2), ("float16", 0.02)])
async def test_half_precision_is_near_single_and_known_by_its_name(dtype, near, folders):
    """A cached score of one number format is never used for another."""
    model = await opened(folders["gpt2"], dtype=dtype).open()
    found = await model.continuation(ContinuationRequest(prompt=PROMPT, continuation=" yes, it is"))
    expected = plain(folders["gpt2"], PROMPT, " yes, it is")
    assert [token.logprob for token in found.tokens] == pytest.approx(expected, abs=near)
    assert model.identity["dtype"] == dtype
    await model.aclose()


async def test_layers_are_spread_by_accelerate(folders):
    """With it a `device_map` changes no score; without it, the error says what to install."""
    model = TransformersModel("transformers/x", str(folders["gpt2"]), device_map="cpu")
    request = ContinuationRequest(prompt=PROMPT, continuation=" yes")
    if importlib.util.find_spec("accelerate") is None:
        with pytest.raises(ConfigurationError, match="pip install accelerate"):
            await model.continuation(request)
    else:
        found = await model.continuation(request)
        expected = plain(folders["gpt2"], PROMPT, " yes")
        assert [token.logprob for token in found.tokens] == pytest.approx(expected, abs=1e-5)
    await model.aclose()


async def test_the_common_beginning_of_a_batch_is_evaluated_once(folders):
    """Requests with the same source share it; T5 encodes a prompt once for all that follows."""
    for family in ("gpt2", "t5"):
        model = await opened(folders[family]).open()
        texts = (" yes", " no", " home", " May")
        asked = [ContinuationRequest(prompt=LONG + PROMPT, continuation=text) for text in texts]
        await model.continuation(asked[0])
        once = model.evaluated_tokens
        await asyncio.gather(*(model.continuation(one) for one in asked))
        assert model.evaluated_tokens - once < 2 * once
        await model.aclose()


async def test_choices_add_up_their_forms_and_exclude_each_other(folder):
    """Equal to the continuations' probabilities; together at most 1."""
    model = opened(folder)
    forms = {"yes": (" yes", " Yes"), "no": (" no",), "ten": (" 10",), "one": (" 1",)}
    answer = await model.choices(ChoicesRequest(prompt=PROMPT, choices=forms))
    for label in ("yes", "no"):
        single = [math.exp(sum(plain(folder, PROMPT, form))) for form in forms[label]]
        assert math.exp(answer.logprobs[label]) == pytest.approx(sum(single), rel=1e-4)
    assert 0 < answer.mass < 1
    await model.aclose()


async def test_greedy_answers_equal_the_library_s(folder):
    """Token by token as `generate` writes, alone and beside other requests."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    is_t5 = folder.name.startswith("t5")
    kind = AutoModelForSeq2SeqLM if is_t5 else AutoModelForCausalLM
    reference = kind.from_pretrained(folder).eval()
    model = opened(folder)
    prompts = [PROMPT, LONG + "is it?", "the cat"]
    asked = [Request(prompt=prompt, max_tokens=9, logprobs=3) for prompt in prompts]
    found = await asyncio.gather(*(model.generate(one) for one in asked))
    for prompt, response in zip(prompts, found, strict=True):
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.inference_mode():
            whole = reference.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False
            )[0]
        written = [int(i) for i in (whole[1:] if is_t5 else whole[ids.shape[1] :]) if int(i) != 2]
        assert response.usage.completion_tokens == len(written)
        expected = tokenizer.decode(written, skip_special_tokens=True)
        assert response.samples[0].text.strip() == expected.strip()
        for token in response.samples[0].logprobs:
            assert token.top[0][1] == pytest.approx(token.logprob, abs=1e-6)
    await model.aclose()


async def test_only_the_source_is_cut_and_it_is_recorded(folder):
    """As if the shorter source had been asked about; of encoder-decoder models, too."""
    source = "the cat sat on the mat and the dog ran home " * 9
    model = opened(folder, n_ctx=64, truncate="source")
    request = ContinuationRequest(
        prompt=f"question: {source} answer:", continuation=" yes", truncatable=source
    )
    found = await model.continuation(request)
    assert found.truncated_tokens > 0
    assert found.usage.prompt_tokens <= 64
    alone = opened(folder)
    words = source.split(" ")
    shorter = [f"question: {' '.join(words[:count])} answer:" for count in range(1, 64)]
    whole = [
        await alone.continuation(ContinuationRequest(prompt=prompt, continuation=" yes"))
        for prompt in shorter
    ]
    await alone.aclose()
    assert min(abs(one.logprob - found.logprob) for one in whole) < 1e-5
    assert (
        await model.generate(Request(prompt=request.prompt, truncatable=source, max_tokens=4))
    ).truncated_tokens > 0
    await model.aclose()


async def test_samples_depend_on_the_seed_alone(folder):
    """Not on what else is asked; several samples of one request differ."""
    model = opened(folder)
    request = Request(prompt=PROMPT, max_tokens=8, temperature=1.0, n=4, seed=3)
    alone = await model.generate(request)
    others = [Request(prompt=LONG, max_tokens=5, temperature=1.0, seed=n) for n in range(3)]
    beside, *_ = await asyncio.gather(model.generate(request), *map(model.generate, others))
    assert [s.text for s in alone.samples] == [s.text for s in beside.samples]
    assert len({s.text for s in alone.samples}) > 1
    await model.aclose()


async def test_control_tokens_in_a_text_stay_text(folders):
    """An end mark in an evaluated text does not end it."""
    model = opened(folders["llama"])
    request = ContinuationRequest(prompt="the text: </s>", continuation=" yes")
    tokens = (await model.continuation(request)).usage.prompt_tokens
    shorter = ContinuationRequest(prompt="the text: ", continuation=" yes")
    assert tokens > (await model.continuation(shorter)).usage.prompt_tokens + 1
    await model.aclose()


async def test_abilities_that_a_model_lacks_are_named(folder):
    """JSON schemas, prompts that are too long, messages without a template, a closed model."""
    model = opened(folder)
    with pytest.raises(CapabilityError, match="JSON schema"):
        await model.generate(Request(prompt="x", json_schema={"type": "object"}))
    chat = Request(messages=(ChatMessage(role="user", content="x"),), max_tokens=2)
    if folder.name.startswith("t5"):
        assert (await model.generate(chat)).samples
    else:
        with pytest.raises(ConfigurationError, match="chat template"):
            await model.generate(chat)
        with pytest.raises(ContextTooLong):
            await model.continuation(ContinuationRequest(prompt=LONG * 9, continuation=" yes"))
    shared = ChoicesRequest(prompt="x", choices={"a": (" yes",), "b": (" yes",)})
    with pytest.raises(RequestRefused, match="share the form"):
        await model.choices(shared)
    await model.aclose()
    with pytest.raises(ModelClosed):
        await model.generate(Request(prompt="x"))


@pytest.mark.parametrize("spec", ["./nowhere", "/nowhere/at all", "a b c"])
async def test_a_model_that_is_not_there_is_named(spec):
    """Before anything is downloaded."""
    with pytest.raises(ModelNotFound, match="folder"):
        await TransformersModel("transformers/x", spec).open()


async def test_damaged_files_are_refused(tmp_path, folders):
    """A folder without weights, or with those of another head, is not a language model."""
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ConfigurationError, match="tokenizer"):
        await opened(tmp_path).open()


async def test_the_identity_follows_the_files(tmp_path, folders):
    """Equal files are the same model in every folder; other weights are another one."""
    other = tmp_path / "other"
    save("gpt2", other, seed=1)
    first, second = await opened(folders["gpt2"]).open(), await opened(other).open()
    assert first.identity["files"] != second.identity["files"]
    assert first.identity["class"] == "GPT2LMHeadModel"
    for model in (first, second):
        await model.aclose()


PARTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "token_embd": "model.embed_tokens", "output_norm": "model.norm",
    "output": "lm_head",
}  # fmt: skip


def llama_of(written, shape):
    """The same weights as a model of transformers, whose rotary halves are laid out apart."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=shape.vocabulary, hidden_size=shape.width, num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
            intermediate_size=shape.hidden, max_position_embeddings=shape.context,
            rms_norm_eps=shape.eps,
            rope_parameters={"rope_type": "default", "rope_theta": shape.theta},
            tie_word_embeddings=False,
        )
    )  # fmt: skip
    state = {}
    for name, array in written.weights.items():
        *block, part, _ = name.split(".")
        heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}.get(part)
        if heads:
            pairs = array.reshape(heads, shape.head_width // 2, 2, shape.width)
            array = pairs.swapaxes(1, 2).reshape(array.shape)
        prefix = f"model.layers.{block[1]}." if block else ""
        state[f"{prefix}{PARTS[part]}.weight"] = torch.tensor(array)
    model.load_state_dict(state)
    return model


async def test_llama_equals_llama_cpp_on_the_same_weights(tmp_path):
    """To 1e-3 per token, with the vocabulary read out of the GGUF file."""
    pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")
    fixture = pytest.importorskip("tests.gguf_fixture")
    from textassay.runtime.backends.local.llamacpp import LlamaCppModel

    file, shape = tmp_path / "model.gguf", fixture.Shape(dtype="f32", context=512)
    folder = tmp_path / "folder"
    llama_of(fixture.write_model(file, shape), shape).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name).save_pretrained(folder)
    ours = opened(folder)
    local = LlamaCppModel("llamacpp/model.gguf", file, kv="f32", n_gpu_layers=0, threads=1)
    for prompt in ("the summary is", "rate the fluent text of the source and answer: "):
        request = ContinuationRequest(prompt=prompt, continuation=" very good")
        a, b = await ours.continuation(request), await local.continuation(request)
        assert [t.token for t in a.tokens] == [t.token for t in b.tokens]
        expected = [t.logprob for t in b.tokens]
        assert [t.logprob for t in a.tokens] == pytest.approx(expected, abs=1e-3)
    await ours.aclose()
    await local.aclose()
