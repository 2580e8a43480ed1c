"""Twins: two graphs that message passing cannot tell apart, or only with enough layers."""

from itertools import combinations

import numpy as np
from numpy.random import Generator

from permlab.datasets.sources.twin_sets import Graph

CSL_NODES, CSL_SKIPS = 41, (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def epsilon_trees(random: Generator, height: int, eps: float) -> tuple[Graph, Graph]:
    """Two trees with the same leaves 1 ± ε, 1 ± 2ε, grouped otherwise (Davidson and Dym, arXiv 2406.06984).

    Four leaves a = (ε, −ε, ε, −ε), b = (2ε, −2ε, 2ε, −2ε) or c = (ε, −ε, 2ε, −2ε) hang on one node, which has four such
    sisters, and so on; the root has two children. A sum over neighbours of a smooth function sees ε² of a group, ε⁴ of
    the groups {a, b} against {c, c}, and so on: the power doubles with every step.
    """
    a, b, c, d = np.array([[1, -1, 1, -1], [2, -2, 2, -2], [1, -1, 2, -2], [1, -1, 2, -2]])
    for _ in range(height - 3):
        a, b, c, d = (np.concatenate(parts) for parts in ((a, b, a, b), (c, d, c, d), (a, b, c, d), (a, b, c, d)))
    inner = 1 + 2 * sum(4**level for level in range(height - 2))  # the root, its two children, their children, …
    n = inner + 2 * len(a)
    child = np.arange(1, n)
    parent = np.where(child < 3, 0, (child - 3) // 4 + 1)
    drawn = eps * random.uniform(0.5, 1)
    twins = []
    for leaves in (np.concatenate([a, b]), np.concatenate([c, d])):
        x = np.ones((n, 1))
        x[inner:, 0] += drawn * leaves
        twins.append((x, np.stack([parent, child])))
    return twins[0], twins[1]


def ring_transfer(random: Generator, length: int) -> tuple[Graph, Graph]:
    """Two rings of 2·length nodes. See `_transfer`."""
    n = 2 * length
    node = np.arange(n)
    return _transfer(random, np.stack([node, (node + 1) % n]), n, query=0, source=length)


def clique_transfer(random: Generator, length: int) -> tuple[Graph, Graph]:
    """Two cliques of length + 1 nodes, each with a path that ends in the source. See `_transfer`."""
    size = length + 1
    clique = np.array(list(combinations(range(size), 2))).T
    path = np.stack([np.arange(size - 1, size + length - 2), np.arange(size, size + length - 1)])
    n = size + length - 1
    return _transfer(random, np.concatenate([clique, path], axis=1), n, query=0, source=n - 1)


def _transfer(random: Generator, edges: np.ndarray, n: int, query: int, source: int) -> tuple[Graph, Graph]:
    """Two copies of a graph. Both sources hold a value, one +1 and one −1; only one copy has a query: the twins differ
    in which value it shares a copy with. Without a node that sees query and source, they are equal, so distance/2
    layers are needed; the noise is the same in both copies. Columns: query, source, value, noise.
    """
    noise = random.standard_normal(n)
    both = np.concatenate([edges, edges + n], axis=1)
    twins = []
    for value in (1.0, -1.0):
        x = np.zeros((2 * n, 4))
        x[query, 0] = 1
        x[[source, n + source], 1] = 1
        x[[source, n + source], 2] = value, -value
        x[:, 3] = np.tile(noise, 2)
        twins.append((x, both))
    return twins[0], twins[1]


def cycles(random: Generator, walks: int) -> tuple[Graph, Graph]:
    """One ring of a + b nodes, and two of a and b: every node has two neighbours. 3 ≤ a, b ≤ 8."""
    a, b = random.integers(3, 9, 2)
    one = _ring(a + b, 0)
    two = np.concatenate([_ring(a, 0), _ring(b, a)], axis=1)
    return _walked(one, a + b, walks), _walked(two, a + b, walks)


def _ring(n: int, first: int) -> np.ndarray:
    node = np.arange(n)
    return np.stack([node, (node + 1) % n]) + first


def skip_links(skip: int, walks: int) -> Graph:
    """Circular skip links (Murphy et al. 2019): a ring of 41 nodes, each also linked to the one `skip` further."""
    node = np.arange(CSL_NODES)
    edges = np.concatenate([_ring(CSL_NODES, 0), np.stack([node, (node + skip) % CSL_NODES])], axis=1)
    return _walked(edges, CSL_NODES, walks)


def cai_furer_immerman(random: Generator, base: int, walks: int) -> tuple[Graph, Graph]:
    """CFI graphs of the complete graph of `base` nodes: not isomorphic, equal for the (base − 2)-dimensional
    Weisfeiler–Leman test. For base = 4 they are the rook's and the Shrikhande graph.

    Nodes are (v, S), S an even set of edges at v; (u, S) and (v, T) are linked if both or neither of S and T hold the
    edge uv; on a twisted edge, if just one does. An even and an odd number of twists differ.
    """
    links = list(combinations(range(base), 2))
    nodes = []
    for v in range(base):
        own = [link for link in links if v in link]
        nodes += [(v, set(some)) for size in range(0, base, 2) for some in combinations(own, size)]
    twisted = random.random(len(links)) < 0.5
    twins = []
    for odd in (False, True):
        twisted[0] ^= (twisted.sum() % 2 == 1) != odd
        turned = {link for link, turn in zip(links, twisted, strict=True) if turn}
        edges = [
            (i, j)
            for (i, (u, S)), (j, (v, T)) in combinations(enumerate(nodes), 2)
            if u != v and ((((u, v) in S) == ((u, v) in T)) != ((u, v) in turned))
        ]
        twins.append(_walked(np.array(edges).T, len(nodes), walks))
    return twins[0], twins[1]


def _walked(edges: np.ndarray, n: int, walks: int) -> Graph:
    """A constant 1 as the feature, or the probabilities that a random walk is back after 1, 2, …, `walks` steps."""
    if not walks:
        return np.ones((n, 1)), edges
    step = np.zeros((n, n))
    step[edges[0], edges[1]] = step[edges[1], edges[0]] = 1
    step /= step.sum(axis=1, keepdims=True)
    power, back = np.eye(n), []
    for _ in range(walks):
        power = power @ step
        back.append(np.diag(power))
    return np.stack(back, axis=1), edges
