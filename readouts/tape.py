"""A tape of few, large steps: what torch's own costs beside them is a tenth of a training step.

`apply` stands for the `apply` of a torch function, and outside of a `Tape` it is that. In between torch may record what
it likes: both tapes lead to the same gradients.
"""

import threading
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

_record_gradients = torch._C._set_grad_enabled  # what torch.no_grad() calls: a context would take longer than the rest
_running = threading.local()


class _Context:
    """What a function keeps from its forward for its backward."""

    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad: list[bool]

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


class Tape:
    """`with Tape() as tape: loss = …` and `tape.backward(loss)`: what `loss.backward()` does, once, for one thread.

    What a recorded function makes is a leaf for torch: where another operation takes it, torch's tape begins there, and
    the gradients that lie at its leaves go on along this one.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[Any, _Context, tuple[Any, ...], Tensor]] = []

    def __enter__(self) -> Self:
        _running.tape = self
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _running.tape = None

    def record(self, function: Any, arguments: tuple[Any, ...]) -> Tensor:
        context = _Context()
        context.needs_input_grad = [isinstance(each, Tensor) and each.requires_grad for each in arguments]
        _record_gradients(False)
        try:
            out: Tensor = function.forward(context, *arguments)
        finally:
            _record_gradients(True)
        if True in context.needs_input_grad:
            out.requires_grad_()
            self._steps.append((function, context, arguments, out))
        return out

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a scalar to `grad` of every leaf that it was made of."""
        before = torch.is_grad_enabled()
        _record_gradients(False)
        try:
            _pass(loss, torch.ones_like(loss))
            while self._steps:
                function, context, arguments, out = self._steps.pop()
                if (given := out.grad) is None:
                    continue
                backward = getattr(function.backward, "__wrapped__", function.backward)  # without a context of its own
                gradients = backward(context, given)
                for argument, gradient, asked in zip(arguments, gradients, context.needs_input_grad, strict=True):
                    if asked and gradient is not None:
                        _pass(argument, gradient)
        finally:
            _record_gradients(before)


def _pass(to: Tensor, gradient: Tensor) -> None:
    if to.grad_fn is not None:
        to.backward(gradient)  # torch's tape leads on from here
        return
    if to._backward_hooks:
        for hook in to._backward_hooks.values():
            changed = hook(gradient)
            gradient = gradient if changed is None else changed
    before = to.grad
    to.grad = gradient if before is None else before + gradient


def apply(function: Any, *arguments: Any) -> Tensor:
    """`function.apply(*arguments)`, one tensor; on the tape of this thread if one is running."""
    tape: Tape | None = getattr(_running, "tape", None)
    if tape is not None and torch.is_grad_enabled():
        return tape.record(function, arguments)
    out: Tensor = function.apply(*arguments)
    return out
