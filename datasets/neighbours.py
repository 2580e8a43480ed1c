"""Sums over neighbours as a PyTorch operator: `torch.ops.permlab.neighbour_sum`."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@torch.library.custom_op("permlab::neighbour_sum", mutates_args=())
def neighbour_sum(
    h: Tensor, ptr: Tensor, column: Tensor, value: Tensor, back_ptr: Tensor, back_column: Tensor, back_value: Tensor
) -> Tensor:
    """A H for a sparse A [m, n], given as CSR, and its transpose, which the gradient takes: h [n, k] → [m, k].

    An embedding bag computes this sum several times faster than gathering the rows and adding them; its own gradient,
    which does not use Aᵀ, takes twenty times as long.
    """
    return functional.embedding_bag(column, h, ptr, mode="sum", per_sample_weights=value, include_last_offset=True)


@neighbour_sum.register_fake
def _(h: Tensor, ptr: Tensor, *rest: Tensor) -> Tensor:
    return h.new_empty(ptr.numel() - 1, h.size(1))


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    ptr, column, value, back_ptr, back_column, back_value = ctx.saved_tensors
    given = neighbour_sum(grad.contiguous(), back_ptr, back_column, back_value, ptr, column, value)
    return given, None, None, None, None, None, None


neighbour_sum.register_autograd(_backward, setup_context=_keep)
