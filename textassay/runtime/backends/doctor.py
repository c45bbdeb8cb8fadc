"""What a model can really do: every ability probed by asking, none assumed from a name.

Knows no backend. A probe ends in a `Finding`; errors that any request would meet (no such model, a
wrong key, nothing listening) are not findings and are raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textassay.runtime.backends.probes import IN_BATCHES, PROBES, Finding, Probe
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    ModelError,
    NothingListening,
    RequestRefused,
)
from textassay.runtime.model import Model


async def examine(model: Model) -> list[Finding]:
    """Probe all abilities, one after the other, with about a dozen short requests.

    Raises:
        FatalModelError: Nothing can be asked of this model at all.
        NothingListening: Nothing answers at its address.
    """
    return [await _probed(ability, probe, model) for ability, probe in PROBES.items()]


async def examine_batches(model: Model) -> list[Finding]:
    """Probe what batches may lack, side by side: a model that is asked through them takes long.

    Args:
        model: One that answers `generate` through a batch API.

    Raises:
        FatalModelError: No batch can be submitted at all.
    """
    results = await asyncio.gather(*(_probed(name, PROBES[name], model) for name in IN_BATCHES))
    return [item.model_copy(update={"ability": f"batch {item.ability}"}) for item in results]


def plain_text(heading: str, findings: Sequence[Finding]) -> str:
    """Return findings as lines for a terminal below a heading, abilities aligned."""
    width = max(len(finding.ability) for finding in findings)
    lines = [
        f"{finding.ability:{width}}  {finding.verdict:7}  {finding.detail}" for finding in findings
    ]
    return "\n".join([heading, *(f"  {line}" for line in lines)])


async def _probed(ability: str, probe: Probe, model: Model) -> Finding:
    try:
        return await probe(model)
    # These would meet every probe alike: one clear error says more than ten findings.
    except (FatalModelError, NothingListening):
        raise
    except (CapabilityError, ConfigurationError, RequestRefused) as error:
        return Finding(ability=ability, verdict="no", detail=str(error))
    except ModelError as error:
        return Finding(
            ability=ability,
            verdict="unknown",
            detail=f"the probe failed: {type(error).__name__}: {error}",
        )
