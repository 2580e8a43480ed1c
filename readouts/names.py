"""The table of readouts: what is to be known of each before torch is imported."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from permlab.readouts.errors import ReadoutError


class Method(NamedTuple):
    """What the planner, the settings and the report need to know of a readout."""

    in_paper: bool = False
    invariant: bool = True
    rows: bool = False  # the head takes all n rows of a graph, not one vector
    copies: int = 0  # permuted copies of every training graph, by default
    # Microseconds per node and epoch of training: fixed, and per unit of d. Measured on one core; a first guess until
    # cells are timed.
    cost: tuple[float, float] = (3.0, 0.2)


METHODS = {
    "ordering": Method(in_paper=True, rows=True, cost=(0.82, 0.031)),
    "kernels": Method(in_paper=True, cost=(0.76, 0.006)),
    "identity": Method(in_paper=True, invariant=False, rows=True, cost=(0.70, 0.024)),
    "augment": Method(in_paper=True, invariant=False, rows=True, copies=4, cost=(0.80, 0.026)),
    "sum": Method(in_paper=True, cost=(0.56, 0.001)),
    "sort": Method(in_paper=True, rows=True, cost=(0.75, 0.025)),
    "set2set": Method(in_paper=True, cost=(0.71, 0.009)),
    "reduced": Method(),
    "alpha0": Method(),
    "alpha1": Method(),
    "alpha2": Method(),
    "zeta0": Method(),
    "zeta1": Method(),
    "power_sums": Method(),
    "polynomial": Method(),
    "fourier": Method(),
    "trained_ordering": Method(rows=True),
    "gamma": Method(),
    "rank_one_filters": Method(),
    "max_filters": Method(),
    "fspool": Method(),
    "pswe": Method(),
    "fsw": Method(),
    "deepsets": Method(),
    "deepsets_relu": Method(),
    "adaptive_relu": Method(),
    "moments": Method(),
    "mean": Method(),
    "max": Method(),
    "min": Method(),
    "std": Method(),
    "softmax": Method(),
    "power_mean": Method(),
    "variance_preserving": Method(),
    "multi": Method(),
    "attention": Method(),
    "set_transformer": Method(),
    "multiset_transformer": Method(),
    "janossy": Method(),
    "gru": Method(invariant=False),
    "lstm": Method(invariant=False),
    "mlp": Method(invariant=False),
}
NAMES = tuple(METHODS)
PAPER_METHODS = tuple(name for name, method in METHODS.items() if method.in_paper)

_OTHER = Method()  # of a readout that is not built in, nothing is known before it is built


def facts_of(method: str) -> Method:
    """What is known of a readout by its name, which may carry options: `kernels,kernels=400`."""
    return METHODS.get(method.partition(",")[0], _OTHER)


def methods_in_order(methods: Iterable[str]) -> list[str]:
    """The paper's readouts in the paper's order, then the other built-in ones, then the rest by name; each once."""
    places = {name: place for place, name in enumerate(NAMES)}
    return sorted(set(methods), key=lambda method: (places.get(method.partition(",")[0], len(NAMES)), method))


def check_name(method: str) -> str:
    """The name itself, if there is such a readout."""
    if method not in NAMES:
        near = get_close_matches(method, NAMES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ReadoutError(f"unknown readout {method!r}: {hint}choose from {', '.join(NAMES)}")
    return method
