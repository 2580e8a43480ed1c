"""What `permlab doctor` looks at. Every look is bounded in time, and none leaves anything running."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from typing import Any

from permlab.datasets.cache import cache_root
from permlab.datasets.errors import DataError
from permlab.platform.doctor.finding import BROKEN, NOTE, OK, PATIENCE, Finding
from permlab.platform.files.secrets import mask
from permlab.platform.tracking.store import tracking_uri
from permlab.platform.tracking.store_check import check_store

STEPS_PATIENCE = 120  # seconds for the training steps on an accelerator, which may have to load its kernels first
PACKAGES = ("torch", "pytorch-lightning", "torch-geometric", "ray", "mlflow", "optuna", "pyarrow")


def examine(runs: Path) -> Iterator[Finding]:
    """All findings, the quick ones first."""
    looks: list[Callable[[], Finding | None]] = [_versions, _requirements, _accelerator, _cache, lambda: _runs(runs)]
    for look in [*looks, lambda: check_store(tracking_uri(runs)), _ray, _training_steps]:
        if finding := look():
            yield finding


def _versions() -> Finding:
    found = [f"Python {platform.python_version()}"]
    for name in ("permlab", *PACKAGES):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} –")
    return Finding("versions", OK, ", ".join(found))


def _requirements() -> Finding:
    """Is everything installed that this PermLab asks for, in a version that it accepts?"""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires("permlab") or []]
    except PackageNotFoundError:
        return Finding("requirements", NOTE, "PermLab runs from a folder and is not installed: not checked")
    wanted = [need for need in wanted if need.marker is None or need.marker.evaluate({"extra": ""})]
    wrong = []
    for need in wanted:
        try:
            if not need.specifier.contains(version(need.name), prereleases=True):
                wrong.append(f"{need} (found {version(need.name)})")
        except PackageNotFoundError:
            wrong.append(f"{need} (missing)")
    if wrong:
        return Finding("requirements", BROKEN, "; ".join(wrong), "install PermLab again: make test, or pip install .")
    return Finding("requirements", OK, f"all {len(wanted)} met")


def _accelerator() -> Finding:
    cores = f"{os.cpu_count() or 1} CPU cores"
    if not _may_have_accelerator():
        return Finding("accelerator", OK, f"none; {cores}")
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        return Finding("accelerator", OK, f"CUDA {torch.version.cuda}: {', '.join(names)}; {cores}")
    if device := torch.accelerator.current_accelerator(check_available=True):
        return Finding("accelerator", OK, f"{device.type.upper()}; {cores}")
    if _has_nvidia():
        mend = "check the driver with nvidia-smi; install a torch with CUDA if this one has none"
        return Finding("accelerator", BROKEN, f"an NVIDIA GPU that torch {torch.__version__} cannot use", mend)
    return Finding("accelerator", OK, f"none; {cores}")


def _may_have_accelerator() -> bool:
    """Without a sign of one torch need not be imported, which takes seconds."""
    others = any(Path(path).exists() for path in ("/dev/kfd", "/dev/dri")) or bool(entry_points(group="torch.backends"))
    return _has_nvidia() or platform.system() == "Darwin" or others


def _has_nvidia() -> bool:
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def _training_steps() -> Finding | None:
    """On an accelerator: does a training step of every readout have the CPU's numbers there, and is it faster?"""
    if not _may_have_accelerator():
        return None
    name, code = "training steps", "from permlab.platform.doctor.device_check import main; main()"
    mend = "train on the CPU with accelerator=cpu, and check the driver and the build of torch"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=STEPS_PATIENCE)
    except subprocess.TimeoutExpired:
        return Finding(name, BROKEN, f"the accelerator has not taken them after {STEPS_PATIENCE} seconds", mend)
    checks: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Finding(name, BROKEN, f"ended after {len(checks)} readouts: {reason[:200]}", mend)
    if not checks:
        return None
    wrong = [f"{check['method']}: {check['problem']}" for check in checks if check["problem"]]
    if wrong:
        return Finding(name, BROKEN, f"not as on the CPU: {'; '.join(wrong)}", mend)
    times = [f"{c['method']} {1e3 * c['device_seconds']:.1f} / {1e3 * c['cpu_seconds']:.1f}" for c in checks]
    return Finding(name, OK, f"as on the CPU; milliseconds there / on the CPU: {', '.join(times)}")


def _cache() -> Finding:
    try:
        root = cache_root()
    except DataError as error:
        return Finding("cache", BROKEN, str(error), "set PERMLAB_CACHE to a folder of yours")
    return _folder("cache", root, "set PERMLAB_CACHE to a folder of yours", len(list(root.glob("*/manifest.json"))))


def _runs(runs: Path) -> Finding:
    done = len(list(runs.glob("cells/*/result.json")))
    return _folder("runs", runs, "name another folder with runs=DIR", done)


def _folder(name: str, path: Path, mend: str, entries: int) -> Finding:
    """Can it be written to, and how much is left on its disk?"""
    there = next(parent for parent in (path, *path.resolve().parents) if parent.exists())
    if not os.access(there, os.W_OK) or not there.is_dir():
        return Finding(name, BROKEN, f"{path} cannot be written to", mend)
    free = shutil.disk_usage(there).free / 1e9
    what = {"cache": "data sets", "runs": "runs"}[name]
    found = f"{path}: {entries} {what}, {free:.0f} GB free"
    return Finding(name, NOTE if free < 2 else OK, found, f"little room left; {mend}" if free < 2 else "")


def _ray() -> Finding:
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return Finding("ray", OK, f"no cluster (RAY_ADDRESS is not set): a sweep uses the {os.cpu_count()} cores here")
    # In a process of its own: Ray has no time limit for a cluster that accepts connections and says nothing.
    code = "from permlab.platform.sweep.ray_tasks import look; look()"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=6 * PATIENCE)
    except subprocess.TimeoutExpired:
        return Finding("ray", BROKEN, f"{address} does not answer", "is it a Ray head of this version of Ray?")
    if done.returncode:
        reason = mask(done.stderr.strip().splitlines()[-1]) if done.stderr.strip() else "no answer"
        mend = "check RAY_ADDRESS; with a token: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
        return Finding("ray", BROKEN, reason, mend)
    nodes: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
    found = f"{address}: {len(nodes)} node{'s' * (len(nodes) > 1)}, {cpus:g} CPUs, {gpus:g} GPUs"
    if len(nodes) > 1 and not os.environ.get("MLFLOW_TRACKING_URI"):
        return Finding("ray", BROKEN, found, "several nodes need a tracking server: set MLFLOW_TRACKING_URI")
    return Finding("ray", OK, found)
