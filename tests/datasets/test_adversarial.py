"""Twins against independent formulations: moments, sorted projections, colour refinement, isomorphism."""

from collections import Counter
from math import factorial

import networkx as nx
import numpy as np
import pytest

from permlab.datasets.cache import build
from permlab.datasets.chunk import GraphChunk
from permlab.datasets.errors import DataUsageError
from permlab.datasets.sources.adversarial import TASKS, Adversarial
from permlab.datasets.sources.twin_graphs import epsilon_trees
from permlab.datasets.store import GraphStore


def chunk_of(task: str, **parameters) -> GraphChunk:
    (chunk,) = Adversarial(task, graphs=20, **parameters).read(None, None).chunks
    return chunk


def pairs(chunk: GraphChunk) -> list[tuple[nx.Graph, nx.Graph]]:
    """Twins as NetworkX graphs; the feature of a node is its attribute `x`."""
    graphs = []
    for i in range(len(chunk)):
        nodes, edges = slice(*chunk.node_ptr[i : i + 2]), slice(*chunk.edge_ptr[i : i + 2])
        graph = nx.Graph(list(zip(chunk.src[edges].tolist(), chunk.dst[edges].tolist(), strict=True)))
        graph.add_nodes_from((place, {"x": tuple(row)}) for place, row in enumerate(chunk.x[nodes].tolist()))
        graphs.append(graph)
    assert chunk.y.tolist() == [0, 1] * (len(chunk) // 2)
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def points(graph: nx.Graph) -> np.ndarray:
    return np.array([graph.nodes[node]["x"] for node in sorted(graph)])


def colours(graph: nx.Graph, steps: int) -> Counter:
    """Colour refinement, started from the features."""
    colour = {node: hash(graph.nodes[node]["x"]) for node in graph}
    for _ in range(steps):
        colour = {node: hash((colour[node], tuple(sorted(colour[other] for other in graph[node])))) for node in graph}
    return Counter(colour.values())


@pytest.mark.parametrize(("k", "features"), [(1, 1), (2, 3), (4, 2), (8, 2)])
def test_moments_are_equal_up_to_k_and_no_further(k: int, features: int) -> None:
    weights = np.random.default_rng(0).integers(1, 5, features)
    for first, second in pairs(chunk_of("moments", k=k, features=features)):
        x, y = (points(graph).astype(np.float64) for graph in (first, second))
        assert not first.edges and x.shape == y.shape == (2**k + 2, features)
        np.testing.assert_array_equal(x.max(0), y.max(0))
        np.testing.assert_array_equal(x.min(0), y.min(0))
        np.testing.assert_array_equal(x.sum(0), y.sum(0))  # to the last bit
        for power in range(1, k + 1):
            left, right = (((z @ weights) ** power).sum() for z in (x, y))
            assert left == pytest.approx(right, rel=1e-12)
        # The next power of the numbers 0 … 2^(k+1) − 1 differs by (k+1)! 2^(k(k+1)/2), which is Prouhet's sum.
        line, ends = (x - x.min(0)) @ weights, 2 ** (k + 1) + 2 * (2**k // 4) + 1
        step = line.max() / ends
        numbers = [np.sort(np.rint(((z - x.min(0)) @ weights) / step)).astype(int).tolist() for z in (x, y)]
        left, right = (sum(int(number) ** (k + 1) for number in some) for some in numbers)
        assert abs(left - right) == factorial(k + 1) * 2 ** (k * (k + 1) // 2)


@pytest.mark.parametrize(
    ("key", "features", "A"),
    [
        ("ones", 2, [[1, 0, 1], [0, 1, 1]]),
        ("ones", 3, [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]]),
        ("identity", 2, [[1, 0], [0, 1]]),
        ("1,0,2,1;0,1,3,-1", 2, [[1, 0, 2, 1], [0, 1, 3, -1]]),
    ],
)
def test_collisions_of_a_key(key: str, features: int, A: list) -> None:
    for first, second in pairs(chunk_of("collision", key=key, features=features)):
        x, y = points(first), points(second)
        np.testing.assert_allclose(np.sort(x @ A, axis=0), np.sort(y @ A, axis=0), atol=1e-5)
        apart = np.abs(x[:, None] - y[None]).sum(-1)
        assert apart.min(axis=1).max() > 0.1  # no matching brings them together


def test_a_gap_makes_collisions_near_ones() -> None:
    A = [[1, 0, 1], [0, 1, 1]]
    for first, second in pairs(chunk_of("collision", gap=1e-3)):
        off = np.abs(np.sort(points(first) @ A, axis=0) - np.sort(points(second) @ A, axis=0)).max()
        assert 1e-5 < off < 1e-2


def test_epsilon_trees_have_equal_leaves_and_are_separated_by_two_steps() -> None:
    for first, second in pairs(chunk_of("trees", height=4)):
        assert nx.is_tree(first) and len(first) == 43
        np.testing.assert_array_equal(np.sort(points(first), axis=0), np.sort(points(second), axis=0))
        assert colours(first, 1) == colours(second, 1) and colours(first, 2) != colours(second, 2)


@pytest.mark.parametrize(("height", "power"), [(3, 4), (4, 8)])
def test_a_smooth_sum_over_children_sees_a_power_of_epsilon(height: int, power: int) -> None:
    """h(leaf) = its feature − 1, h(node) = Σ exp(h(child)) − 1 over the children: the roots differ by O(ε^power)."""

    def gap(eps: float) -> float:
        roots = []
        for x, (parent, child) in epsilon_trees(np.random.default_rng(0), height, eps):
            h = x[:, 0] - 1
            for node in np.unique(parent)[::-1]:
                h[node] = np.expm1(h[child[parent == node]]).sum()
            roots.append(h[0])
        return abs(roots[0] - roots[1])

    assert gap(0.1) / gap(0.05) == pytest.approx(2**power, rel=0.4)


@pytest.mark.parametrize("task", ["ring", "clique"])
@pytest.mark.parametrize("length", [2, 5, 8])
def test_transfer_needs_half_as_many_steps_as_the_length(task: str, length: int) -> None:
    for first, second in pairs(chunk_of(task, length=length)):
        for graph in (first, second):
            (query,) = [node for node in graph if graph.nodes[node]["x"][0] == 1]
            sources = {node: graph.nodes[node]["x"][2] for node in graph if graph.nodes[node]["x"][1] == 1}
            reached = nx.single_source_shortest_path_length(graph, query)
            ((source, value),) = [(node, value) for node, value in sources.items() if node in reached]
            assert len(sources) == 2 and reached[source] == length and value == (1 if graph is first else -1)
        needed = -(-length // 2)
        assert colours(first, needed - 1) == colours(second, needed - 1)
        assert colours(first, needed) != colours(second, needed)


@pytest.mark.parametrize(("task", "parameters"), [("regular", {}), ("cfi", {}), ("cfi", {"base": 5})])
def test_colour_refinement_never_separates_these_but_they_are_not_isomorphic(task: str, parameters: dict) -> None:
    for first, second in pairs(chunk_of(task, **parameters))[: 2 if parameters else 10]:
        assert colours(first, 6) == colours(second, 6)
        if task == "regular":
            assert nx.is_connected(first) and not nx.is_connected(second)
        elif not parameters:
            cliques = [sum(len(clique) == 4 for clique in nx.find_cliques(graph)) for graph in (first, second)]
            assert sorted(cliques) == [0, 8]  # Shrikhande's graph and the rook's


def test_walks_separate_cycles_but_not_cfi_graphs() -> None:
    for first, second in pairs(chunk_of("regular", walks=8)):
        assert colours(first, 0) != colours(second, 0)
    for first, second in pairs(chunk_of("cfi", walks=8)):
        np.testing.assert_allclose(np.sort(points(first), axis=0), np.sort(points(second), axis=0), atol=1e-6)


def test_skip_links_are_ten_classes_of_regular_graphs() -> None:
    manifest = build("adversarial:csl,graphs=40")
    assert (manifest.classes, manifest.min_nodes, manifest.max_nodes, manifest.edges) == (10, 41, 41, 40 * 41 * 4)
    store = GraphStore.open("adversarial:csl,graphs=40")
    assert np.bincount(store.y.astype(int)).tolist() == [4] * 10
    assert len(np.unique(store.group)) == 40


@pytest.mark.parametrize("task", TASKS)
def test_the_best_score_is_known_and_the_data_depends_on_the_seed_alone(task: str) -> None:
    manifest = build(f"adversarial:{task},graphs=20")
    assert manifest.best == {"ACC": 1.0, "AUC": 1.0}
    assert manifest.digest == build(f"adversarial:{task},graphs=20", force=True).digest
    assert manifest.digest != build(f"adversarial:{task},graphs=20,seed=1").digest
    longer = Adversarial(task, graphs=40).read(None, None).chunks
    np.testing.assert_array_equal(next(iter(longer)).x[: manifest.nodes], chunk_of(task).x)


def test_twins_stay_together() -> None:
    build("adversarial:moments,graphs=60")
    store = GraphStore.open("adversarial:moments,graphs=60")
    for part in store.split(seed=3):
        np.testing.assert_array_equal(np.bincount(store.group[part])[np.unique(store.group[part])] % 2, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "it needs a task, as in adversarial:TASK"),
        (":knots", "no adversarial data set 'knots'; choose from moments, collision"),
        (":moments,k=9", "k=9; choose 1 to 8"),
        (":moments,length=3", "moments takes k, features, graphs, seed, not length"),
        (":ring,graphs=7", "graphs=7 is not a multiple of 2"),
        (":csl,graphs=25", "graphs=25 is not a multiple of 10"),
        (":collision,key=two", "key='two' is not ones, identity, or rows"),
        (":collision,key=1,0;0", "key='1,0;0' is not ones"),
        (":collision,key=1,0,0;0,1,0", "key='1,0,0;0,1,0' is 2 × 3; .*, none of 0"),
        (":collision,features=9", "key='ones' is 9 × 10.*2 to 8 columns"),
        (":trees,height=2", "height=2; choose 3 to 6"),
        (":moments,depth=3", r"unknown parameter 'depth'"),
    ],
)
def test_wrong_names_are_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(DataUsageError, match=message):
        build(f"adversarial{name}")
