"""Everything besides its key that a result's bits depend on: equal key and equal numerics, equal bits.

Different numerics change a result only by rounding, unless their code differs.
"""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from permlab.platform.run.code_digest import code_digest

Numerics = dict[str, Any]


def device_of(accelerator: str) -> str:
    """cpu, cuda or mps, for the setting `accelerator`."""
    if accelerator != "auto":
        return accelerator
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def cpu_name() -> str:
    """The CPU's model: libraries choose their kernels by it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def blas_name() -> str:
    """The BLAS of the engine and the CPU that it chose its kernels for, which OPENBLAS_CORETYPE may name too."""
    import scipy.linalg.cython_blas  # noqa: F401  numba calls the BLAS of scipy
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    kernels = sorted({library.get("architecture", library["internal_api"]) for library in libraries})
    return ", ".join([f"scipy {version('scipy')}, numpy {version('numpy')}", *kernels])


def numerics_now(engine: str, accelerator: str, uses_pyg: bool = False) -> Numerics:
    """The numerics of a run in this process, with its current number of threads.

    numba and the BLAS matter only with the fast engine: for finite values, the compiled kernels of single operators are
    bit-equal to their plain definitions.
    """
    device = device_of(accelerator)
    return {
        "code": code_digest(),
        "engine": engine,
        "cpu": f"{cpu_name()}, {torch.backends.cpu.get_cpu_capability()}",
        "threads": torch.get_num_threads(),
        "device": f"cuda ({torch.cuda.get_device_name(0)})" if device == "cuda" else device,
        "torch": str(torch.__version__),
        "numba": version("numba") if engine == "fast" else None,
        "blas": blas_name() if engine == "fast" else None,  # the engine's products
    } | ({"pyg": version("torch_geometric")} if uses_pyg else {})


def differences(before: Numerics, now: Numerics) -> str:
    """`threads 1 → 2, engine fast → plain`; empty if they are equal."""
    names = [name for name in before | now if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {before.get(name)} → {now.get(name)}" for name in names)
