"""What a model can really do: every ability probed by asking, none assumed from a name.

Knows no backend. A probe ends in a `Finding`; errors that any request would meet (no such model, a
wrong key, nothing listening) are not findings and are raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence

from textassay.runtime.backends.probes import (
    IN_BATCHES,
    PROBES,
    Finding,
    Form,
    as_chat,
    as_prompt,
)
from textassay.runtime.backends.thinking_probes import THINKING_PROBES
from textassay.runtime.calls.adapting import AdaptingModel
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    ModelError,
    NothingListening,
    RequestRefused,
    quoted,
)
from textassay.runtime.model import Model


async def examine(model: Model) -> list[Finding]:
    """Probe all abilities, one after the other, with about a dozen short requests.

    A model whose requests are adapted is also probed for thoughts, parameters, effort and caching.

    Raises:
        FatalModelError: Nothing can be asked of this model at all.
        NothingListening: Nothing answers at its address.
    """
    findings: list[Finding] = []
    refused: FatalModelError | None = None
    form: Form = as_chat
    for ability, probe in PROBES.items():
        try:
            finding = await _probed(ability, probe(model, form))
        except FatalModelError as error:
            # one of the two forms of a prompt, or an address of its own, may be what is missing
            if ability == "prompt" and refused is not None:
                raise refused from error
            refused = error
            finding = Finding(ability=ability, verdict="no", detail=quoted(error))
        if ability == "chat" and finding.verdict != "yes":
            form = as_prompt
        findings.append(finding)
    if isinstance(model, AdaptingModel):
        findings += await _examine_thinking(model, form)
    return findings


async def _examine_thinking(model: AdaptingModel, form: Form) -> list[Finding]:
    findings = []
    for ability, probe in THINKING_PROBES.items():
        began = time.monotonic()
        findings.append(await _probed(ability, probe(model, form)))
        if ability == "thinks":
            seconds = f"{time.monotonic() - began:.1f} s for a short answer"
            findings.append(Finding(ability="latency", verdict="yes", detail=seconds))
    return findings


async def examine_batches(model: Model) -> list[Finding]:
    """Probe what batches may lack: chats, and then all else side by side, as a batch takes long.

    Args:
        model: One that answers `generate` through a batch API.

    Raises:
        FatalModelError: No batch can be submitted at all.
    """
    first, *others = IN_BATCHES
    chat = await _probed(first, PROBES[first](model, as_chat))
    form = as_chat if chat.verdict == "yes" else as_prompt
    results = await asyncio.gather(*(_probed(name, PROBES[name](model, form)) for name in others))
    return [
        item.model_copy(update={"ability": f"batch {item.ability}"}) for item in (chat, *results)
    ]


def plain_text(heading: str, findings: Sequence[Finding]) -> str:
    """Return findings as lines for a terminal below a heading, abilities aligned."""
    width = max(len(finding.ability) for finding in findings)
    lines = [
        f"{finding.ability:{width}}  {finding.verdict:7}  {finding.detail}" for finding in findings
    ]
    return "\n".join([heading, *(f"  {line}" for line in lines)])


async def _probed(ability: str, probe: Awaitable[Finding]) -> Finding:
    try:
        return await probe
    # These would meet every probe alike: one clear error says more than ten findings.
    except (FatalModelError, NothingListening):
        raise
    except (CapabilityError, ConfigurationError, RequestRefused) as error:
        return Finding(ability=ability, verdict="no", detail=quoted(error))
    except ModelError as error:
        return Finding(
            ability=ability,
            verdict="unknown",
            detail=f"the probe failed: {type(error).__name__}: {quoted(error)}",
        )
