"""A tape of few, large steps: beside them torch's own took up to a tenth of a training step.

`apply` stands for the `apply` of a torch function, and outside of a `Tape` it is that. In between torch may record what
it likes: both tapes lead to the same gradients.
"""

import threading
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

_record_gradients = torch._C._set_grad_enabled  # what torch.no_grad() calls, without a context for every step
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
    the gradients that lie at its leaves go on along this one. Unlike torch's, it does not notice if what a function has
    kept is changed before the gradients are made.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[Any, _Context, tuple[Any, ...], Tensor]] = []
        self._outer: Tape | None = None

    def __enter__(self) -> Self:
        self._outer, _running.tape = getattr(_running, "tape", None), self
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _running.tape = self._outer

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
        if not loss.requires_grad:
            raise RuntimeError("the loss depends on nothing that takes a gradient")
        before, sums = torch.is_grad_enabled(), _Sums()
        _record_gradients(False)
        try:
            sums.add(loss, torch.ones_like(loss))
            while self._steps:
                function, context, arguments, out = self._steps.pop()
                if (given := sums.take(out)) is None:
                    continue
                backward = getattr(function.backward, "__wrapped__", function.backward)  # without a context of its own
                gradients = backward(context, given)
                for argument, gradient, asked in zip(arguments, gradients, context.needs_input_grad, strict=True):
                    if asked and gradient is not None:
                        sums.add(argument, gradient)
            sums.store()
        finally:
            _record_gradients(before)


class _Sums:
    """The gradients of leaves, as far as they have been added up."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Tensor, Tensor]] = {}  # a leaf by its address, so that two are never compared

    def add(self, to: Tensor, gradient: Tensor) -> None:
        if to.grad_fn is not None:  # torch's tape leads on from here; another step may begin on it too
            to.backward(gradient, retain_graph=True)
            return
        before = self._found.get(id(to))
        self._found[id(to)] = to, gradient if before is None else before[1] + gradient

    def take(self, leaf: Tensor) -> Tensor | None:
        """The whole gradient of what a step made, with what has come along torch's tape."""
        _, gradient = self._found.pop(id(leaf), (None, None))
        gradient = gradient if leaf.grad is None else leaf.grad if gradient is None else leaf.grad + gradient
        return gradient if gradient is None or not leaf._backward_hooks else _hooked(leaf, gradient)

    def store(self) -> None:
        """Those that are left to `grad`, laid out as the leaf is: fused optimisers read them as they lie."""
        for leaf, gradient in self._found.values():
            if leaf._backward_hooks:
                gradient = _hooked(leaf, gradient)
            if (before := leaf.grad) is not None:
                gradient = before + gradient
            leaf.grad = gradient if gradient.stride() == leaf.stride() else torch.empty_like(leaf).copy_(gradient)
            for hook in (leaf._post_accumulate_grad_hooks or {}).values():
                hook(leaf)


def _hooked(leaf: Tensor, gradient: Tensor) -> Tensor:
    for hook in (leaf._backward_hooks or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


def apply(function: Any, *arguments: Any) -> Tensor:
    """`function.apply(*arguments)`, one tensor; on the tape of this thread if one is running."""
    tape: Tape | None = getattr(_running, "tape", None)
    if tape is not None and torch.is_grad_enabled():
        return tape.record(function, arguments)
    out: Tensor = function.apply(*arguments)
    return out
