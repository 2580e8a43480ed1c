"""Gradients along the tape are those along torch's own, whatever lies between the recorded steps."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from permlab.readouts.tape import Tape, apply


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.scale = scale
        assert not torch.is_grad_enabled()
        return scale * (a @ b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        a, b = ctx.saved_tensors
        assert not torch.is_grad_enabled()
        grad_a = ctx.scale * (grad @ b.T) if ctx.needs_input_grad[0] else None
        return grad_a, ctx.scale * (a.T @ grad), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad.expand_as(x)


class _Last(_Sum):
    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        return (_Sum.backward(ctx, grad).contiguous(),)


def recorded_only(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = apply(_Product, x, weight, 0.5)
    return apply(_Last, x)


def with_torch_between(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = torch.tanh(apply(_Product, x, weight, 0.5)) + 1
    return apply(_Last, x)


def with_torch_behind(x: Tensor, weights: list[Tensor]) -> Tensor:
    return (recorded_only(x, weights) * weights[0].mean()).exp()


def one_weight_twice(x: Tensor, weights: list[Tensor]) -> Tensor:
    return recorded_only(x, [weights[0], weights[0], weights[1]])


def two_ways(x: Tensor, weights: list[Tensor]) -> Tensor:
    first = apply(_Product, x, weights[0], 1.0)
    left, right = apply(_Product, first, weights[1], 2.0), torch.relu(first)
    unused = apply(_Product, first, weights[1], 3.0)
    assert unused.shape == left.shape
    return apply(_Last, left + right)


def one_of_torchs_for_two_steps(x: Tensor, weights: list[Tensor]) -> Tensor:
    shared = torch.tanh(apply(_Product, x, weights[0], 1.0))
    left, right = apply(_Product, shared, weights[1], 2.0), apply(_Product, torch.exp(shared), weights[2], 1.0)
    return apply(_Last, left * right)


MODELS = [
    recorded_only,
    with_torch_between,
    with_torch_behind,
    one_weight_twice,
    two_ways,
    one_of_torchs_for_two_steps,
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("wants_x", [True, False])
def test_it_leads_where_torchs_leads(model: Any, wants_x: bool) -> None:
    torch.manual_seed(0)
    x, weights = torch.randn(5, 3, requires_grad=wants_x), [torch.randn(3, 3, requires_grad=True) for _ in range(3)]
    leaves, found = [x, *weights], []
    for taped in (True, False):
        for leaf in leaves:
            leaf.grad = None
        if taped:
            with Tape() as tape:
                loss = model(x, weights)
            tape.backward(loss)
        else:
            loss = model(x, weights)
            loss.backward()
        assert torch.is_grad_enabled()
        assert (x.grad is not None) == wants_x
        found.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    for ours, theirs in zip(*found, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:  # sums of two are taken in either order
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_gradients_are_added_to_what_is_there() -> None:
    x, weight = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    for _ in range(2):
        with Tape() as tape:
            loss = recorded_only(x, [weight])
        tape.backward(loss)
    assert weight.grad is not None and torch.equal(weight.grad, torch.full((2, 2), 2.0))


def test_a_hook_sees_the_gradient_and_may_change_it() -> None:
    x, weight = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    seen: list[Tensor] = []
    weight.register_hook(lambda grad: 3 * grad)
    with Tape() as tape:
        made = apply(_Product, x, weight, 0.5)
        made.register_hook(seen.append)
        loss = apply(_Last, made)
    tape.backward(loss)
    assert weight.grad is not None and torch.equal(weight.grad, torch.full((2, 2), 3.0))
    assert len(seen) == 1 and torch.equal(seen[0], torch.ones(2, 2))


def test_what_fails_leaves_torch_as_it_was() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError), Tape():
        apply(_Product, torch.ones(3, 3), weight, 1.0)
    assert torch.is_grad_enabled()
    assert "_Product" in str(apply(_Product, torch.ones(2, 2), weight, 1.0).grad_fn)  # no tape is running


def test_nothing_is_recorded_where_no_gradient_is_asked_for() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    with Tape() as tape:
        with torch.no_grad():
            assert not apply(_Product, torch.ones(2, 2), weight, 1.0).requires_grad
        assert not apply(_Product, torch.ones(2, 2), weight.detach(), 1.0).requires_grad
    assert not tape._steps


def test_a_hook_sees_the_whole_gradient_once() -> None:
    x, weight, seen, behind = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True), [], []
    weight.register_hook(seen.append)
    weight.register_post_accumulate_grad_hook(lambda leaf: behind.append(leaf.grad))
    with Tape() as tape:
        loss = recorded_only(x, [weight, weight])
    tape.backward(loss)
    assert len(seen) == len(behind) == 1 and torch.equal(seen[0], behind[0])


def test_a_gradient_lies_as_its_parameter_does() -> None:
    """Optimisers that take all parameters at once read it so."""

    class Turned(_Product):
        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
            a, _ = ctx.saved_tensors
            return None, (grad.T @ a).T, None

    weight = torch.randn(3, 2, requires_grad=True)
    with Tape() as tape:
        loss = apply(_Last, apply(Turned, torch.randn(5, 3), weight, 1.0))
    tape.backward(loss)
    assert weight.grad is not None and weight.grad.stride() == weight.stride()


def test_a_tape_within_a_tape() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    with Tape() as outer:
        with Tape():
            pass
        loss = recorded_only(torch.ones(2, 2), [weight])
    outer.backward(loss)
    assert weight.grad is not None


def test_a_loss_that_depends_on_nothing_is_refused() -> None:
    with Tape() as tape:
        loss = torch.ones(())
    with pytest.raises(RuntimeError, match="depends on nothing"):
        tape.backward(loss)
