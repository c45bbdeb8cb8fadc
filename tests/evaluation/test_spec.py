"""How a run was made is read back from its manifest."""

import pytest

from textassay.evaluation.manifest import recorded_request
from textassay.runtime.errors import RunFolderError


@pytest.mark.parametrize("tools", [["bleu"], [{"name": "bleu"}], "bleu", {"bleu": 1}, 3])
def test_what_a_method_of_another_package_calls_tools_is_its_own(tools: object) -> None:
    """A description is any JSON: it neither stops a resume nor names assistant evaluators."""
    manifest = {
        "spec": {"method": "ours", "task": "summarization"},
        "method": {"name": "ours", "tools": tools},
    }
    assert recorded_request(manifest).tools == ()


def test_tools_of_a_run_that_did_not_record_their_names_are_those_it_described() -> None:
    """As earlier versions wrote it when no tools were named."""
    manifest = {
        "spec": {"method": "fusion-eval", "task": "summarization"},
        "method": {"name": "fusion-eval", "tools": [{"name": "rougeL"}, {"name": "chrf"}]},
    }
    assert recorded_request(manifest).tools == ("rougeL", "chrf")


@pytest.mark.parametrize("field", [{"settings": {}}, {"out": "elsewhere"}, {"resume": True}])
def test_a_manifest_does_not_say_how_its_request_is_carried_out(field: dict[str, object]) -> None:
    """Headers and addresses are never taken from a run folder."""
    with pytest.raises(RunFolderError, match=f"unexpected {next(iter(field))}"):
        recorded_request({"spec": {"method": "llm-score", **field}})
