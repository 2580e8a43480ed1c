import pytest
import torch

from permlab.readouts.loops.cell import advance, retreat


@pytest.mark.parametrize("d", [1, 3, 16, 50, 100])
@pytest.mark.parametrize("same", [True, False])
def test_a_step_and_its_gradient_are_those_of_the_formula(d: int, same: bool) -> None:
    torch.manual_seed(d)
    given = torch.randn(7, 4 * d, dtype=torch.float64) * 3
    given[0, 0], given[1, 0] = 1e-6, -60.0  # tanh and the logistic function near 0 and at their ends
    before = torch.randn(1 if same else 7, d, dtype=torch.float64)
    z, c = given.clone().requires_grad_(), before.expand(7, d).clone().requires_grad_()
    i, f, g, o = z.chunk(4, 1)
    cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
    q = o.sigmoid() * cell.tanh()
    gates, old = given.float().numpy(), before.float().numpy()
    made = torch.empty(3, 7, d).numpy()
    advance(gates, old, *made)
    torch.testing.assert_close(torch.from_numpy(made[0]), cell.float())
    torch.testing.assert_close(torch.from_numpy(made[2]), q.float())

    grad_q, grad_cell = torch.randn(7, d), torch.randn(7, d)
    expected = torch.autograd.grad((q * grad_q).sum() + (cell * grad_cell).sum(), (z, c))
    carried, grad_gates = grad_cell.clone(), torch.empty(7, 4 * d)
    retreat(gates, old, made[1], grad_q.numpy(), carried.numpy(), grad_gates.numpy())
    torch.testing.assert_close(grad_gates, expected[0].float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(carried, expected[1].float(), rtol=1e-4, atol=1e-5)
