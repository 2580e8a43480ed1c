"""The measured limits of this machine: matrix products and memory copies."""

import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

PACKAGES = ("torch", "torch-geometric", "pytorch-lightning", "numpy")


def limits(size: int = 2048, megabytes: int = 256, seconds: float = 0.5) -> dict[str, Any]:
    """The best within `seconds` each: GFLOP/s of a float32 GEMM, GB/s of a copy (bytes read and written).

    `instructions` is the set that torch uses; the environment may hide some of the CPU's.
    """
    import torch

    left, right = torch.randn(size, size), torch.randn(size, size)
    source = torch.ones(megabytes * 250_000)
    target = torch.empty_like(source)
    product = torch.empty_like(left)
    gemm = _best(lambda: torch.mm(left, right, out=product), seconds)
    copy = _best(lambda: target.copy_(source), seconds)
    return {
        "gemm_gflops": 2e-9 * size**3 / gemm,
        "copy_gb_s": 2e-9 * 4 * source.numel() / copy,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _best(action: Any, seconds: float) -> float:
    action()  # warm-up: touching a page for the first time is slow
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def facts(threads: int = 1) -> dict[str, Any]:
    """Machine, versions and date: a measurement means nothing without them."""
    from permlab.platform.run.numerics import blas_name, cpu_name

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        # OPENBLAS_CORETYPE may hide some of the CPU's instructions
        "blas": blas_name() if find_spec("numba") else None,
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),  # of all processes; above 1 the machine was busy
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
    }


def caption(machine: dict[str, Any]) -> str:
    """One line under a table or a picture."""
    threads = machine["threads"]
    blas = f"; engine: {machine['blas']}" if machine.get("blas") else ""  # older results have none
    return f"{machine['cpu']}, {threads} core{'s' * (threads > 1)}{blas}, {machine['date'][:10]}"
