import pytest
import torch
from torch.nn import functional

from permlab.tasks.losses import cross_entropy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torchs_with_its_gradient(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits = torch.randn(200, dtype=dtype) * 8
    logits[:4] = torch.tensor([0.0, 300.0, -300.0, 1e-6])
    y = (torch.rand(200) < 0.4).to(dtype)
    found = []
    for loss in (cross_entropy, functional.binary_cross_entropy_with_logits):
        z = logits.clone().requires_grad_()
        value = loss(z, y)
        (3 * value).backward()
        found.append((value.detach(), z.grad))
    torch.testing.assert_close(*found)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(logits, y), found[1][0])


def test_what_is_no_number_stays() -> None:
    z = torch.tensor([float("nan"), 1.0], requires_grad=True)
    assert cross_entropy(z, torch.zeros(2)).isnan()
