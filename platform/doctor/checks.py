"""The checks of `permlab doctor`. Each has a time limit, and none leaves anything running."""

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
    """All findings, those of quick checks first."""
    quick: list[Callable[[], Finding | None]] = [_versions, _requirements, _accelerator, _cache, lambda: _runs(runs)]
    for check in [*quick, lambda: check_store(tracking_uri(runs)), _ray, _training_steps]:
        if finding := check():
            yield finding


def _versions() -> Finding:
    versions = [f"Python {platform.python_version()}"]
    for name in ("permlab", *PACKAGES):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} –")
    return Finding("versions", OK, ", ".join(versions))


def _requirements() -> Finding:
    """Are all requirements installed, in versions that PermLab accepts?"""
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
                wrong.append(f"{need} (installed: {version(need.name)})")
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
        fix = "check the driver with nvidia-smi; install a torch with CUDA if this one has none"
        return Finding("accelerator", BROKEN, f"an NVIDIA GPU that torch {torch.__version__} cannot use", fix)
    return Finding("accelerator", OK, f"none; {cores}")


def _may_have_accelerator() -> bool:
    """Look for signs of one first: importing torch takes seconds."""
    others = any(Path(path).exists() for path in ("/dev/kfd", "/dev/dri")) or bool(entry_points(group="torch.backends"))
    return _has_nvidia() or platform.system() == "Darwin" or others


def _has_nvidia() -> bool:
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def _training_steps() -> Finding | None:
    """On an accelerator: does a training step of every readout give the CPU's numbers, and is it faster?"""
    if not _may_have_accelerator():
        return None
    name, code = "training steps", "from permlab.platform.doctor.device_check import main; main()"
    fix = "train on the CPU with accelerator=cpu, and check the driver and the build of torch"
    try:
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=STEPS_PATIENCE)
    except subprocess.TimeoutExpired:
        return Finding(name, BROKEN, f"the accelerator has not finished them after {STEPS_PATIENCE} seconds", fix)
    checks: list[dict[str, Any]] = [json.loads(line) for line in process.stdout.splitlines()]
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        return Finding(name, BROKEN, f"stopped after {len(checks)} readouts: {reason[:200]}", fix)
    if not checks:
        return None
    wrong = [f"{check['method']}: {check['problem']}" for check in checks if check["problem"]]
    if wrong:
        return Finding(name, BROKEN, f"differ from the CPU's: {'; '.join(wrong)}", fix)
    times = [f"{c['method']} {1e3 * c['device_seconds']:.1f} / {1e3 * c['cpu_seconds']:.1f}" for c in checks]
    return Finding(name, OK, f"same numbers as on the CPU; milliseconds there / on the CPU: {', '.join(times)}")


def _cache() -> Finding:
    try:
        root = cache_root()
    except DataError as error:
        return Finding("cache", BROKEN, str(error), "set PERMLAB_CACHE to a writable folder")
    return _folder("cache", root, "set PERMLAB_CACHE to a writable folder", len(list(root.glob("*/manifest.json"))))


def _runs(runs: Path) -> Finding:
    ended = len(list(runs.glob("cells/*/result.json")))
    return _folder("runs", runs, "name another folder with runs=DIR", ended)


def _folder(name: str, path: Path, fix: str, entries: int) -> Finding:
    """Is the folder writable, and how much space is left on its disk?"""
    existing = next(parent for parent in (path, *path.resolve().parents) if parent.exists())
    if not os.access(existing, os.W_OK) or not existing.is_dir():
        return Finding(name, BROKEN, f"{path} cannot be written to", fix)
    free = shutil.disk_usage(existing).free / 1e9
    contents = {"cache": "data sets", "runs": "runs"}[name]
    detail = f"{path}: {entries} {contents}, {free:.0f} GB free"
    return Finding(name, NOTE if free < 2 else OK, detail, f"little space left; {fix}" if free < 2 else "")


def _ray() -> Finding:
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return Finding("ray", OK, f"no cluster (RAY_ADDRESS is not set): a sweep uses {os.cpu_count()} cores here")
    # In a separate process: Ray waits forever for a cluster that accepts connections but does not answer.
    code = "from permlab.platform.sweep.ray_cluster import print_nodes; print_nodes()"
    try:
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=6 * PATIENCE)
    except subprocess.TimeoutExpired:
        return Finding("ray", BROKEN, f"{address} does not answer", "is it a Ray head node of the same version?")
    if process.returncode:
        reason = mask(process.stderr.strip().splitlines()[-1]) if process.stderr.strip() else "no answer"
        fix = "check RAY_ADDRESS; with a token: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
        return Finding("ray", BROKEN, reason, fix)
    nodes: list[dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
    detail = f"{address}: {len(nodes)} node{'s' * (len(nodes) > 1)}, {cpus:g} CPUs, {gpus:g} GPUs"
    if len(nodes) > 1 and not os.environ.get("MLFLOW_TRACKING_URI"):
        return Finding("ray", BROKEN, detail, "several nodes need a tracking server: set MLFLOW_TRACKING_URI")
    return Finding("ray", OK, detail)
