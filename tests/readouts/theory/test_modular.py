import numpy as np
import sympy

from permlab.readouts.theory.modular import P, minus, product, rank, residues, times


def test_products_and_differences_are_those_of_python_integers() -> None:
    rng = np.random.default_rng(0)
    a, b = (np.append(rng.integers(0, P, 500), [0, 1, P - 1, P - 1]).astype(np.uint64) for _ in range(2))
    assert [int(v) for v in times(a, b)] == [int(x) * int(y) % P for x, y in zip(a, b, strict=True)]
    assert [int(v) for v in minus(a, b)] == [(int(x) - int(y)) % P for x, y in zip(a, b, strict=True)]


def test_matrix_products() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-(2**28), 2**28, (3, 4, 5)), rng.integers(-(2**28), 2**28, (5, 2))
    expected = a.astype(object) @ b.astype(object) % P
    assert np.array_equal(product(residues(a), residues(b)).astype(object), expected)


def test_ranks_are_those_over_the_rationals() -> None:
    rng = np.random.default_rng(2)
    matrices = rng.integers(-3, 4, (60, 5, 4))
    matrices[::2, 4] = matrices[::2, 0] - 2 * matrices[::2, 1]
    matrices[::3, :, 3] = matrices[::3, :, 1] + matrices[::3, :, 2]
    matrices[7] = 0
    assert rank(residues(matrices)).tolist() == [sympy.Matrix(matrix).rank() for matrix in matrices]
