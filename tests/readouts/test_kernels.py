import numpy as np
import pytest
import torch

from permlab.readouts.catalogue import build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.kernels import FourierKernels, GaussianKernels, PolynomialKernels, unit_rows

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_gaussian_is_the_formula_of_section_4() -> None:
    readout = GaussianKernels(3, kernels=7, seed=2)
    drawn = torch.randn(7, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64).numpy()
    centres = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    nodes = X.numpy() / np.linalg.norm(X.numpy(), axis=1, keepdims=True)
    expected = [sum(np.exp(-(np.linalg.norm(x - a) ** 2)) for x in nodes) for a in centres]
    np.testing.assert_allclose(readout(X)[0], expected)


def test_sigma_normalise_and_mean_reach_the_formula() -> None:
    readout = GaussianKernels(3, kernels=2, sigma=3.0, normalise=False, mean=True)
    a = readout.centres.numpy()
    expected = [np.mean([np.exp(-(np.linalg.norm(x - c) ** 2) / 9) for x in X.numpy()]) for c in a]
    np.testing.assert_allclose(readout(X)[0], expected)


def test_a_zero_row_stays_zero() -> None:
    x = torch.zeros(1, 3)
    assert torch.equal(unit_rows(x), x)
    np.testing.assert_allclose(GaussianKernels(3)(x), np.exp(-1), rtol=1e-6)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("mean", [True, False])
def test_gaussian_gradients_are_those_of_the_formula(normalise: bool, mean: bool) -> None:
    readout = GaussianKernels(3, kernels=7, sigma=1.3, normalise=normalise, mean=mean)
    ptr, direction = torch.tensor([0, 2, 2, 5]), torch.randn(3, 7, dtype=torch.float64)
    x, plain = X.clone().requires_grad_(), X.clone().requires_grad_()
    rows = plain / plain.norm(dim=1, keepdim=True) if normalise else plain
    values = (-torch.cdist(rows, readout.centres).square() / 1.3**2).exp()
    sizes = ptr.diff() if mean else torch.ones(3)
    expected = torch.stack(
        [part.sum(0) / max(size, 1) for part, size in zip(values.split([2, 0, 3]), sizes, strict=True)]
    )
    pooled = readout(x, ptr=ptr)
    torch.testing.assert_close(pooled, expected)
    (pooled * direction).sum().backward()
    (expected * direction).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)
    with torch.no_grad():
        torch.testing.assert_close(readout(x, ptr=ptr), expected)


def test_one_channel_has_two_kernels_only() -> None:
    out = GaussianKernels(1, kernels=50)(torch.tensor([[0.3], [-2.0], [5.0]]))
    assert len(out.unique()) == 2


def test_fourier_is_the_complex_exponential() -> None:
    readout = FourierKernels(3, kernels=4, scale=0.7)
    sums = np.exp(2j * np.pi * X.numpy() @ readout.frequencies.numpy().T).sum(axis=0)
    np.testing.assert_allclose(readout(X)[0], np.concatenate([sums.real, sums.imag]), atol=1e-12)


def test_polynomial_sums_each_monomial_once() -> None:
    readout = PolynomialKernels(2, 3)
    x = X[:3, :2]
    expected = [(x[:, 0] ** i * x[:, 1] ** j).sum() for i in range(4) for j in range(4) if 1 <= i + j <= 3]
    np.testing.assert_allclose(sorted(readout(x)[0].tolist()), sorted(map(float, expected)))


def test_power_sums_for_one_column() -> None:
    x = X[:4, :1]
    np.testing.assert_allclose(PolynomialKernels(1, 4)(x)[0], [(x**k).sum() for k in (1, 2, 3, 4)])


@pytest.mark.parametrize("method", ["power_sums", "polynomial"])
def test_power_sums_refuse_graphs_too_large_to_tell_apart(method: str) -> None:
    """{−2, 1, 1} and {2, −1, −1}: sums 0 and sums of squares 6, so two powers are too few for three rows."""
    with pytest.raises(ReadoutError, match="3 nodes.*max_nodes = 2"):
        build(method, d=1, max_nodes=2)(torch.tensor([[-2.0], [1.0], [1.0]]))


def test_zero_rows_have_small_gradients_in_single_precision() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    GaussianKernels(3).float()(x, ptr=torch.tensor([0, 2])).sum().backward()
    assert 0 < x.grad.abs().max() < 1e3


@pytest.mark.parametrize("d", [1, 3, 50, 130])
@pytest.mark.parametrize("normalise", [True, False])
def test_single_precision_is_close_to_double(d: int, normalise: bool) -> None:
    torch.manual_seed(d)
    readout, ptr = GaussianKernels(d, kernels=70, sigma=1.3, normalise=normalise), torch.tensor([0, 2, 2, 70])
    x, direction = torch.randn(70, d), torch.randn(3, 70)
    x[5] = 0
    results = []
    for dtype in (torch.float32, torch.float64):
        rows = x.to(dtype, copy=True).requires_grad_()
        out = readout(rows, ptr=ptr)
        (gradient,) = torch.autograd.grad((out * direction).sum(), rows)
        results.append([out.detach().float(), gradient.float()])
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)
