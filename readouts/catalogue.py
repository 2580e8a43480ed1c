"""Every readout by name, and how it is built for embeddings of d columns and graphs of at most N nodes.

build("ordering", d=10, max_nodes=29) build("kernels", d=10, max_nodes=29, kernels=200)
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

from permlab.readouts.algebraic import Alpha0, Alpha1, Alpha2, Zeta0, Zeta1
from permlab.readouts.base import Readout
from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.kernels import FourierKernels, GaussianKernels, PolynomialKernels, PowerSums
from permlab.readouts.names import check_name
from permlab.readouts.pooling import Identity, SortPooling, Sum
from permlab.readouts.set2set import Set2Set
from permlab.readouts.sorting import Ordering, ReducedOrdering


@dataclass(frozen=True)
class Entry:
    """A readout class, and which of d, N and the seed its constructor takes."""

    readout: type[Readout]
    arguments: Callable[[int, int, int], dict[str, Any]]


def _free(d: int, N: int, seed: int) -> dict[str, Any]:
    return {"in_channels": d}


def _seeded(d: int, N: int, seed: int) -> dict[str, Any]:
    return {"in_channels": d, "seed": seed}


def _bounded(d: int, N: int, seed: int) -> dict[str, Any]:
    return {"in_channels": d, "max_nodes": N}


def _bounded_seeded(d: int, N: int, seed: int) -> dict[str, Any]:
    return {"in_channels": d, "max_nodes": N, "seed": seed}


def _degree(d: int, N: int, seed: int) -> dict[str, Any]:
    return {"in_channels": d, "degree": N}


CATALOGUE: dict[str, Entry] = {
    "ordering": Entry(Ordering, _bounded),
    "kernels": Entry(GaussianKernels, _seeded),
    "identity": Entry(Identity, _bounded),
    "augment": Entry(Identity, _bounded),
    "sum": Entry(Sum, _free),
    "sort": Entry(SortPooling, _bounded),
    "set2set": Entry(Set2Set, _seeded),
    "reduced": Entry(ReducedOrdering, _bounded_seeded),
    "alpha0": Entry(Alpha0, _bounded),
    "alpha1": Entry(Alpha1, _bounded),
    "alpha2": Entry(Alpha2, _bounded),
    "zeta0": Entry(Zeta0, _bounded),
    "zeta1": Entry(Zeta1, _bounded),
    "power_sums": Entry(PowerSums, _degree),
    "polynomial": Entry(PolynomialKernels, _degree),
    "fourier": Entry(FourierKernels, _seeded),
}


def entry(method: str) -> Entry:
    return CATALOGUE[check_name(method)]


def build(method: str, d: int, max_nodes: int, seed: int = 0, **options: Any) -> Readout:
    """The readout `method` for x [n, d] and graphs of at most `max_nodes` nodes; options go to its constructor."""
    chosen = entry(method)
    check_size("d", d, most=10_000)
    check_size("max_nodes", max_nodes)
    check_size("seed", seed, least=0)
    fixed = chosen.arguments(d, max_nodes, seed)
    takes = [name for name in signature(chosen.readout).parameters if name not in fixed]
    wrong = [name for name in options if name not in takes]
    if wrong:
        choices = f"choose from {', '.join(takes)}" if takes else "it takes none"
        raise ReadoutError(f"{method} has no option {wrong[0]!r}: {choices}")
    return chosen.readout(**fixed, **options)
