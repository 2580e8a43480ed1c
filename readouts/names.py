"""The names of the readouts; checking a name does not import torch."""

from difflib import get_close_matches

from permlab.readouts.errors import ReadoutError

PAPER_METHODS = ("ordering", "kernels", "identity", "augment", "sum", "sort", "set2set")
NOT_INVARIANT = ("identity", "augment")
NAMES = (
    *PAPER_METHODS,
    "reduced",
    "alpha0",
    "alpha1",
    "alpha2",
    "zeta0",
    "zeta1",
    "power_sums",
    "polynomial",
    "fourier",
)


def check_name(method: str) -> str:
    """The name itself, if there is such a readout."""
    if method not in NAMES:
        near = get_close_matches(method, NAMES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ReadoutError(f"unknown readout {method!r}: {hint}choose from {', '.join(NAMES)}")
    return method
