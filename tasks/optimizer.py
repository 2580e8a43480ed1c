"""Adam without its bookkeeping: for small models that took as long as the update itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class LeanAdam(torch.optim.Adam):
    """torch's fused Adam, the same numbers; the lists that it gathers at every step are gathered once.

    Between two such steps the parameters share one count of steps: to count sixteen times took as long as a layer.
    """

    _lists: tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]] | None = None

    def state_dict(self) -> dict[str, Any]:
        self._release()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._lists = None
        super().load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self._release()
        super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        if not set_to_none:
            super().zero_grad(set_to_none)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        grads = [parameter.grad for parameter in self.param_groups[0]["params"]]
        ready = closure is None and len(self.param_groups) == 1 and all(grad is not None for grad in grads)
        if self._lists is None or not ready:
            self._release()
            loss = super().step(closure)
            self._lists = self._gather() if ready and self.param_groups[0]["fused"] else None
            return loss
        parameters, means, squares, steps = self._lists
        group = self.param_groups[0]
        if steps[0].device.type == "cpu":
            steps[0].numpy()[()] += 1  # torch takes ten times as long to add one
        else:
            steps[0].add_(1)
        update = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
        update(
            parameters,
            grads,
            means,
            squares,
            [],
            steps,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )
        return None

    step.hooked = True  # type: ignore[attr-defined]  # torch would wrap it in hooks and a profiler's mark

    def _gather(self) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]] | None:
        parameters = self.param_groups[0]["params"]
        states = [self.state[parameter] for parameter in parameters]
        step = states[0]["step"]
        if any(state["step"] != step for state in states):
            return None  # some had no gradient before
        for state in states:
            state["step"] = step
        return parameters, [s["exp_avg"] for s in states], [s["exp_avg_sq"] for s in states], [step] * len(states)

    def _release(self) -> None:
        """A count of steps for every parameter again, as torch has it."""
        if self._lists is not None:
            for parameter in self._lists[0]:
                self.state[parameter]["step"] = self.state[parameter]["step"].clone()
            self._lists = None
