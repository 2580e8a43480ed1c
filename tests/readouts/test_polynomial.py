from itertools import product
from math import comb

import numpy as np
import pytest
import sympy
import torch

from permlab.readouts.errors import ReadoutError
from permlab.readouts.polynomial import alpha0, alpha1, alpha2, monomials, zeta0


def sample(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 1), (2, 2), (3, 2), (3, 3), (2, 4), (5, 2)])
def test_alpha0_is_what_sympy_expands(n: int, d: int) -> None:
    rows = np.random.default_rng(n + d).integers(-4, 5, (n, d))
    t, *variables = sympy.symbols(f"t x1:{d + 1}")
    factors = [t - sum(int(entry) * v for entry, v in zip(row, variables, strict=True)) for row in rows]
    expanded = sympy.Poly(sympy.expand(sympy.prod(factors)), t, *variables)
    expected = [float(expanded.coeff_monomial((n - sum(p), *p))) for p in monomials(d, n)]
    assert alpha0(rows).tolist() == expected


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (4, 3), (2, 5)])
def test_the_index_set_has_every_exponent_once(n: int, d: int) -> None:
    exponents = {p for p in product(range(n + 1), repeat=d) if 1 <= sum(p) <= n}
    assert len(monomials(d, n)) == len(exponents) == comb(n + d, d) - 1
    assert set(monomials(d, n)) == exponents


def test_zeta0_is_numpys_polynomial_from_roots() -> None:
    x = sample(6, 2)
    q = np.poly(x[:, 0].numpy() + 1j * x[:, 1].numpy())[1:]
    np.testing.assert_allclose(zeta0(x), np.stack([q.real, q.imag], axis=1).ravel(), atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 0.2, 5.0])
def test_alpha1_and_alpha2_are_their_formulas(scale: float) -> None:
    x = scale * sample(3, 2)
    norm = x.norm()
    inside = x * min(1.0, 1 / max(float(norm), 1e-30))
    torch.testing.assert_close(alpha1(x), torch.cat([alpha0(inside), norm[None]]))
    if scale:
        torch.testing.assert_close(alpha2(x), torch.cat([norm * alpha0(x / norm), norm[None]]))
    else:
        assert not alpha2(x).any()


@pytest.mark.parametrize("function", [alpha0, alpha1, alpha2, zeta0])
def test_matrices_that_the_key_of_section_4_confuses_stay_apart(function) -> None:
    X = [[1.0, -1.0], [-1.0, 0.0], [0.0, 1.0]]  # Proposition 3.7 with a = (1, 1)
    Y = [[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]
    assert (function(X) - function(Y)).norm() > 0.1


def test_bad_input_is_refused() -> None:
    with pytest.raises(ReadoutError, match="d = 3.*ζ₀.*d = 2"):
        zeta0(sample(2, 3))
    with pytest.raises(ReadoutError, match="limit is 100,000"):
        alpha0(sample(60, 10))
    with pytest.raises(ReadoutError, match="X has entries.*not finite"):
        alpha0([[float("nan")]])
    with pytest.raises(ReadoutError, match=r"X has shape \[0, 2\]"):
        alpha0(torch.zeros(0, 2))
