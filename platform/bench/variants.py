"""Settings other than the paper's, each measured on both sides."""

from dataclasses import dataclass, field
from typing import Any

# Hides AVX-512 from numba, OpenBLAS, ATen, MKL and oneDNN. With NUMBA_CPU_FEATURES empty, numba's LLVM takes the
# features of the named CPU.
AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}


@dataclass(frozen=True)
class Variant:
    """What differs: settings of the model, the number of threads, the environment of both sides."""

    description: str
    model: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None
    environment: dict[str, str] = field(default_factory=dict)


VARIANTS = {
    "dropout": Variant("dropout 0.1", {"dropout": 0.1}),
    "tanh": Variant("tanh instead of ReLU", {"activation": "tanh"}),
    "wide": Variant("128 hidden and 256 head units", {"hidden": 128, "head_hidden": 256}),
    "deep": Variant("five graph convolutions", {"layers": 5}),
    "threads": Variant("two threads", threads=2),
    "avx2": Variant("a CPU without AVX-512", environment=AVX2),
}
