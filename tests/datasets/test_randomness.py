import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from permlab.datasets.randomness import node_order, random_order


def test_orders_do_not_change_between_versions() -> None:
    """Splits and permuted holdouts of published results depend on these numbers."""
    assert random_order(8, 0, 1).tolist() == [7, 4, 5, 1, 6, 2, 0, 3]
    assert node_order(np.array([7, 3]), np.array([0, 5, 9]), 11).tolist() == [0, 3, 1, 2, 4, 7, 5, 8, 6]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 2**63 - 1))
def test_nodes_stay_in_their_graph_and_the_batch_does_not_matter(counts: list[int], seed: int) -> None:
    graph_id = np.arange(len(counts)) * 17
    ptr = np.concatenate([[0], np.cumsum(counts)])
    order = node_order(graph_id, ptr, seed)
    for i, (first, last) in enumerate(itertools.pairwise(ptr)):
        segment = order[first:last]
        assert sorted(segment) == list(range(first, last))
        alone = node_order(graph_id[i : i + 1], np.array([0, last - first]), seed)
        assert (segment - first).tolist() == alone.tolist()


def test_every_order_is_equally_likely() -> None:
    graphs = 60_000
    order = node_order(np.arange(graphs), np.arange(0, 3 * graphs + 1, 3), 5).reshape(-1, 3) % 3
    counts = Counter(map(tuple, order.tolist()))
    expected = graphs / 6
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert len(counts) == 6 and chi_square < 30  # 5 degrees of freedom: P(> 30) is 1.5e-5


def test_seeds_and_graphs_give_different_orders() -> None:
    ptr = np.array([0, 20])
    orders = {tuple(node_order(np.array([graph]), ptr, seed)) for graph in range(20) for seed in range(20)}
    assert len(orders) == 400


def test_each_graph_may_have_its_own_seed_and_a_negative_one_keeps_the_order() -> None:
    graph_id, ptr = np.array([4, 5, 4]), np.array([0, 6, 12, 18])
    mixed = node_order(graph_id, ptr, np.array([1, -1, 2]))
    assert mixed[6:12].tolist() == list(range(6, 12))
    assert mixed[:6].tolist() == node_order(graph_id, ptr, 1)[:6].tolist()
    assert mixed[12:].tolist() == node_order(graph_id, ptr, 2)[12:].tolist()
    assert mixed[:6].tolist() != (mixed[12:] - 12).tolist()
