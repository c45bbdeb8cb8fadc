"""Support for the tests of packages that build on textassay.

A model that answers from a script, and checks for models.

    @pytest.mark.asyncio
    @pytest.mark.parametrize("check", textassay.testing.MODEL_CHECKS)
    async def test_my_model(check):
        await check(lambda: MyModel("my/model"))

`ScriptedModel` needs no network and records its requests. Every built-in backend passes the
checks.
"""

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.testing.conformance import MODEL_CHECKS, MakeModel, ModelCheck, check_model

__all__ = ["MODEL_CHECKS", "MakeModel", "ModelCheck", "ScriptedModel", "check_model"]
