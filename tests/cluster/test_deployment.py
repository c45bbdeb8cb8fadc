"""The files of `examples/deploy` name flags that exist, and belong together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.harness import textassay

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "deploy"


def test_every_object_is_complete_and_refers_to_others_that_are_there():
    """Each file is YAML; the job's pods, service, claim and labels fit together."""
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with Ray")
    objects = list(yaml.safe_load_all((FOLDER / "kubernetes-job.yaml").read_text()))
    kinds = [each["kind"] for each in objects]
    assert kinds == [
        "Service", "NetworkPolicy", "PersistentVolumeClaim", "Deployment", "Deployment", "Job",
    ]  # fmt: skip
    service, _, claim, head, worker, job = objects
    for each in (head, worker):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == head["spec"]["template"]["metadata"]["labels"]
    name, ports = service["metadata"]["name"], {port["port"] for port in service["spec"]["ports"]}
    assert f"--address={name}:6379" in worker["spec"]["template"]["spec"]["containers"][0]["args"]
    pod = job["spec"]["template"]["spec"]
    [script] = pod["containers"][0]["args"]
    assert f"ray://{name}:10001" in script
    assert ports == {6379, 10001}
    assert pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    cluster = yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text())
    image = pod["containers"][0]["image"]
    assert cluster["docker"]["image"] == image
    assert image in (FOLDER / "Dockerfile").read_text()


def test_the_flags_of_textassay_exist():
    """Those of `score` in the files and of `resume` in the job's script."""
    helps = {name: textassay(name, "--help").out for name in ("score", "resume")}
    for path in FOLDER.iterdir():
        for line in path.read_text().splitlines():
            for name, text in helps.items():
                if f"textassay {name} " in line:
                    for flag in re.findall(r"--[a-z-]+", line):
                        assert flag in text, (path.name, flag)
    assert "--progress" in helps["resume"]
    assert "--cluster" in helps["resume"]
