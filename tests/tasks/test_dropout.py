import pytest
import torch

from permlab.tasks.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.97])
def test_entries_are_dropped_with_probability_p_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 333)
    out = Dropout(p)(x)
    kept = out != 0
    error = 5 * (p * (1 - p) / x.numel()) ** 0.5  # five standard deviations
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=error)
    assert out[kept].unique().tolist() == pytest.approx([1 / (1 - p)], rel=1e-3)
    neighbours = (kept[:, 1:] & kept[:, :-1]).float().mean().item()  # four entries share a random number
    assert neighbours == pytest.approx((1 - p) ** 2, abs=3 * error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_gradient_passes_through_the_entries_that_were_kept(dtype: torch.dtype) -> None:
    x = torch.randn(5, 7, dtype=dtype, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert out.dtype == dtype and torch.equal(out, x * x.grad)
    assert set(x.grad.unique().tolist()) == {0.0, 2.0}


def test_nothing_is_dropped_outside_of_training() -> None:
    x = torch.randn(3, 3)
    assert Dropout(0.5).eval()(x) is x and Dropout(0.0)(x) is x


def test_masks_depend_on_the_global_seed() -> None:
    masks = []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        masks.append(Dropout(0.5).mask(3, 5))
    assert torch.equal(masks[0], masks[2]) and not torch.equal(masks[0], masks[1])
