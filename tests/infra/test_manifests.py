"""The manifests of infra/ satisfy schemas and linters, and fit one another.

Kubernetes 1.37's schemas are those of the package kubernetes-validate, which keeps them as files.
"""

import copy
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings

INFRA = Path(__file__).parents[2] / "infra"
KUBERNETES = INFRA / "kubernetes"
VERSION = "1.37"
RAY_SCHEMA = json.loads((Path(__file__).parent / "kuberay-1.6.schema.json").read_text())


def tool(name: str) -> Path:
    """A program that a package of this environment brought along."""
    folders = [Path(sys.executable).parent, *(Path(path).parents[2] / "bin" for path in sys.path if "site-" in path)]
    return next(folder / name for folder in folders if (folder / name).exists())


def manifests(folder: str) -> list[dict[str, Any]]:
    """What `kubectl kustomize` would read: the resources that the kustomization names."""
    kustomization = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
    files = [KUBERNETES / folder / name for name in kustomization["resources"]]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


CORE = [(f"{item['kind']}/{item['metadata']['name']}", item) for item in manifests("base")]
RAY = [(item["kind"], item) for folder in ("cluster", "job") for item in manifests(folder)]


@pytest.mark.parametrize("manifest", [item for _, item in CORE], ids=[name for name, _ in CORE])
def test_kubernetes_accepts(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def ray_spec(manifest: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    return spec


def templates(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = ray_spec(manifest)
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        yield group["template"]


@pytest.mark.parametrize("manifest", [item for _, item in RAY], ids=[name for name, _ in RAY])
def test_kuberay_accepts(manifest: dict[str, Any]) -> None:
    jsonschema.validate(manifest, RAY_SCHEMA)
    for template in templates(manifest):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": template["spec"]}
        kubernetes_validate.validate(pod, VERSION, strict=True)


def test_the_checks_can_fail() -> None:
    _, good = RAY[0]
    bad = copy.deepcopy(good)
    bad["spec"]["workerGroupSpecs"][0]["maxReplica"] = 3
    with pytest.raises(jsonschema.ValidationError, match="maxReplica"):
        jsonschema.validate(bad, RAY_SCHEMA)
    deployment = copy.deepcopy(next(item for name, item in CORE if name == "Deployment/mlflow"))
    deployment["spec"]["template"]["spec"]["containers"][0]["port"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSION, strict=True)


@pytest.mark.parametrize("manifest", [item for _, item in RAY], ids=[name for name, _ in RAY])
def test_the_ray_cluster_is_closed_scales_and_has_gpus(manifest: dict[str, Any]) -> None:
    from importlib.metadata import version

    spec = ray_spec(manifest)
    assert spec["authOptions"]["mode"] == "token" and spec["enableInTreeAutoscaling"]
    assert spec["rayVersion"] == version("ray")
    (workers,) = spec["workerGroupSpecs"]
    assert workers["minReplicas"] < workers["maxReplicas"]
    assert "nvidia.com/gpu" in workers["template"]["spec"]["containers"][0]["resources"]["limits"]


def test_the_job_is_a_sweep_that_permlab_understands() -> None:
    job = next(item for name, item in RAY if name == "RayJob")
    permlab, verb, *words = shlex.split(job["spec"]["entrypoint"])
    assert (permlab, verb) == ("permlab", "sweep")
    assert len(read_settings(SweepSettings, words).cells()) == 15


def test_secrets_are_asked_for_and_none_is_kept() -> None:
    """Every key that a pod takes from the Secret is in the example, and the example is empty."""
    keys = [line.partition("=") for line in (KUBERNETES / "base" / "secrets.env.example").read_text().splitlines()]
    assert all(value == "" for _, _, value in keys)
    text = "".join(path.read_text() for path in KUBERNETES.rglob("*.yaml"))
    wanted = set(re.findall(r"secretKeyRef: \{name: permlab, key: ([a-z_-]+)\}", text))
    assert wanted and wanted | {"auth_token"} == {key for key, _, _ in keys}
    for pod in [
        *(t for _, item in RAY for t in templates(item)),
        *(i["spec"]["template"] for _, i in CORE if i["kind"] in ("Deployment", "StatefulSet")),
    ]:
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        for container in pod["spec"]["containers"]:
            for entry in container.get("env", []):
                assert not re.search("PASSWORD|SECRET|TOKEN", entry["name"]) or "valueFrom" in entry


def compose() -> dict[str, Any]:
    """The compose file with its variables filled in: their defaults, else `x`."""
    text = (INFRA / "compose.yaml").read_text()
    filled = re.sub(r"\$\{\w+(?::-(\w*)|:\?[^}]*)?\}", lambda variable: variable.group(1) or "x", text)
    return dict(yaml.safe_load(filled))


def test_the_compose_file() -> None:
    from compose_spec import PyCompose

    document = compose()
    names = PyCompose.from_json(json.dumps(document)).service_names()
    assert set(names) == {"postgres", "mlflow", "ray-head", "ray-worker"}
    for service in document["services"].values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "reachable from beyond this machine"
    assert "ports" not in document["services"]["postgres"]
    assert document["services"]["ray-worker"]["environment"]["RAY_AUTH_MODE"] == "token"
    wanted = set(re.findall(r"\$\{(\w+):\?", (INFRA / "compose.yaml").read_text()))
    example = (INFRA / "compose.env.example").read_text()
    assert wanted == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def test_the_compose_check_can_fail() -> None:
    from compose_spec import PyCompose

    document = compose()
    document["services"]["mlflow"]["prots"] = ["5000"]
    with pytest.raises(ValueError):
        PyCompose.from_json(json.dumps(document))


def test_the_dockerfile() -> None:
    done = subprocess.run([tool("hadolint"), INFRA / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    text = (INFRA / "Dockerfile").read_text()
    assert "USER 1000:1000" in text and "ARG ACCELERATOR=cpu" in text
    for folder in re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE):
        assert (INFRA.parent / folder).is_dir()
    ignored = (INFRA.parent / ".dockerignore").read_text().splitlines()
    for source in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert f"!{name}" in ignored, f"{name} is copied, but .dockerignore keeps it out"


@pytest.mark.parametrize("script", ["infra/slurm/sweep.sbatch", ".ci/run"])
def test_shell_scripts(script: str) -> None:
    done = subprocess.run([tool("shellcheck"), INFRA.parent / script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_runtime_environment_has_every_source_folder() -> None:
    (module,) = yaml.safe_load((INFRA / "runtime-env.yaml").read_text())["py_modules"]
    for part in ("datasets", "platform", "readouts", "tasks"):
        link = INFRA.parent / module / part
        assert link.resolve() == INFRA.parent / part and any(link.rglob("*.py"))


def test_no_artifact_is_unpickled() -> None:
    """Weights and checkpoints are loaded as tensors alone, arrays without objects."""
    for part in ("datasets", "platform", "readouts", "tasks"):
        for file in (INFRA.parent / part).rglob("*.py"):
            for line in file.read_text().splitlines():
                assert not re.search(r"\bpickle\.loads?\(|joblib\.load\(|read_pickle\(", line), f"{file}: {line}"
                assert "torch.load(" not in line or "weights_only=True" in line, f"{file}: {line}"
                assert "np.load(" not in line or "allow_pickle=False" in line, f"{file}: {line}"
