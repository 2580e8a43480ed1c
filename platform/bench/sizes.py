"""Graph sizes for benchmarks of readouts: 128 graphs, drawn once."""

import numpy as np

GRAPHS, SMALL, GIANT, LARGEST = 128, 39, 20_000, 620
GROWTH = {  # what grows, while the rest stays at 128 graphs of 40 nodes, d = 16
    "B": (32, 128, 512),
    "N": (10, 40, 160),
    "d": (4, 16, 64),
    "largest": (40, 320, 2560),
}


def sizes_of(name: str) -> list[int]:
    """constant: all of PROTEINS_full's mean size. proteins: distributed as in PROTEINS_full, 4 to 620 nodes.
    giant: one graph of 20,000 nodes among 127 small ones. even: the nodes of `giant`, spread evenly.
    """
    if name == "constant":
        return [SMALL] * GRAPHS
    if name == "proteins":  # PROTEINS_full: mean 39.06, standard deviation 45.8
        drawn = np.random.default_rng(0).lognormal(3.233, 0.93, GRAPHS - 1)
        return [*drawn.clip(4, LARGEST).astype(int).tolist(), LARGEST]
    if name == "giant":
        return [SMALL] * (GRAPHS // 2) + [GIANT] + [SMALL] * (GRAPHS - GRAPHS // 2 - 1)
    if name == "even":
        nodes = sum(sizes_of("giant"))
        return [nodes // GRAPHS + (i < nodes % GRAPHS) for i in range(GRAPHS)]
    raise ValueError(f"unknown sizes {name!r}: choose from {', '.join(SIZES)}")


SIZES = ("constant", "proteins", "giant", "even")


def grown(axis: str, value: int) -> tuple[list[int], int]:
    """(sizes, d) of the batch in which `axis` is `value`."""
    if axis == "B":
        return [40] * value, 16
    if axis == "N":
        return [value] * GRAPHS, 16
    if axis == "d":
        return [40] * GRAPHS, value
    rest = (40 * GRAPHS - value) // (GRAPHS - 1)  # the same number of nodes in total, up to rounding
    return [rest] * (GRAPHS - 1) + [value], 16
