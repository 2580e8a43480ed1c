"""Random orders that depend only on their seed: not on the batch, the worker or the library's version.

NumPy promises the bit stream of a bit generator, but not what `Generator.permutation` makes of it, so orders
are argsorts of raw 64-bit words. A node's word is a hash of (seed, graph, node): a graph is permuted in the same way in
every batch.
"""

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def random_order(count: int, *entropy: int) -> np.ndarray:
    """A uniformly random permutation of range(count), a function of `entropy` (non-negative integers)."""
    words = np.random.PCG64(np.random.SeedSequence(entropy)).random_raw(count)
    return np.argsort(words, kind="stable")


def _mix(words: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every input bit reaches every output bit."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def derive_seed(*entropy: int) -> int:
    """A seed below 2^63 that is a function of `entropy` (non-negative integers)."""
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def node_order(graph_id: np.ndarray, ptr: np.ndarray, seed: int | np.ndarray) -> np.ndarray:
    """For every graph a random order of its nodes: position p takes node `order[p]`.

    `graph_id` [B] names the graphs, `ptr` [B + 1] bounds them; returns [n], a permutation within each segment.
    One seed for all, or one per graph [B]; a graph whose seed is negative keeps its order. Ties of the top bits
    (below 2^-40 per pair of nodes) keep the input order.
    """
    counts = np.diff(ptr)
    n = int(ptr[-1])
    graph = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    local = np.arange(n, dtype=np.uint64) - np.repeat(ptr[:-1], counts).astype(np.uint64)
    seeds = np.broadcast_to(np.asarray(seed, dtype=np.int64), counts.shape)
    start = _mix(seeds.astype(np.uint64) * _GAMMA)
    stream = _mix(_mix(np.asarray(graph_id, dtype=np.int64).view(np.uint64) * _GAMMA + start))
    words = _mix(np.repeat(stream, counts) + (local + np.uint64(1)) * _GAMMA)
    if (seeds < 0).any():
        words = np.where(np.repeat(seeds < 0, counts), np.uint64(0), words)
    graph_bits = np.uint64(max(len(counts) - 1, 1).bit_length())
    return np.argsort((graph << (np.uint64(64) - graph_bits)) | (words >> graph_bits), kind="stable")
