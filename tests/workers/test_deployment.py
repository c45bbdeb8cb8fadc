"""The files of `examples/deploy` name flags that exist, and belong together."""

from __future__ import annotations

import re
import tomllib
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
    for each in (head, worker, job):
        [container] = each["spec"]["template"]["spec"]["containers"]
        assert {"secretRef": {"name": "textassay-ray"}} in container["envFrom"]
    assert pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    cluster = yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text())
    image = pod["containers"][0]["image"]
    assert cluster["docker"]["image"] == image
    assert image in (FOLDER / "Dockerfile").read_text()


def test_ray_accepts_the_cluster_file():
    """By the schema of Ray's own launcher."""
    pytest.importorskip("ray", reason="Ray is not installed")
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text()))
    validate_config(config)
    assert config["max_workers"] == len(config["provider"]["worker_ips"])


def test_the_image_is_built_of_what_it_needs_alone():
    """Everything else, such as an environment or keys, stays out of the build's context."""
    lines = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    taken = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in taken)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyproject.toml", "textassay", "LICENSE", project["readme"]} <= taken
    [lock] = re.findall(r"-r (\S+)", (FOLDER / "Dockerfile").read_text())
    assert lock in taken


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
