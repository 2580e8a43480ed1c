from typing import Any

import pytest
import torch
from torch.nn import functional

from permlab.tasks.losses import cross_entropy, squared_error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("ours", "torchs"),
    [(cross_entropy, functional.binary_cross_entropy_with_logits), (squared_error, functional.mse_loss)],
)
def test_it_is_torchs_with_its_gradient(dtype: torch.dtype, ours: Any, torchs: Any) -> None:
    torch.manual_seed(0)
    logits = torch.randn(200, dtype=dtype) * 8
    logits[:4] = torch.tensor([0.0, 300.0, -300.0, 1e-6])
    y = (torch.rand(200) < 0.4).to(dtype)
    found = []
    for loss in (ours, torchs):
        z = logits.clone().requires_grad_()
        value = loss(z, y)
        (3 * value).backward()
        found.append((value.detach(), z.grad))
    torch.testing.assert_close(*found)
    with torch.no_grad():
        torch.testing.assert_close(ours(logits, y), found[1][0])


@pytest.mark.parametrize("loss", [cross_entropy, squared_error])
def test_what_is_no_number_stays(loss: Any) -> None:
    z = torch.tensor([float("nan"), 1.0], requires_grad=True)
    assert loss(z, torch.zeros(2)).isnan()
