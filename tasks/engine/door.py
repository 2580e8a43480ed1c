"""The engine's one door: a way to take the training steps of a task, or a refusal with its reason.

It accepts exact types only: no subclasses, nothing with hooks. What it accepts it checks once against the definition:
loss and every gradient of one batch, by autograd in double precision.
"""

from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import optimizer as torch_optimizer

from permlab.datasets.store import GraphStore
from permlab.tasks.backbones import Adapted
from permlab.tasks.data import GraphData, TrainLoader
from permlab.tasks.dropout import Dropout
from permlab.tasks.engine.dense import KINDS
from permlab.tasks.engine.fast_task import FastTask
from permlab.tasks.engine.optimiser import OPTIMISERS
from permlab.tasks.engine.pools import POOLS
from permlab.tasks.engine.stepper import LOSSES, PARTS, Stepper
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.ragged import RaggedLinear
from permlab.tasks.task import GraphTask

__all__ = ["PARTS", "FastTask", "Refusal", "open_engine"]

TOLERANCE = 1e-2  # relative to a gradient's length: single precision on raw features errs by up to 1e-3


@dataclass(frozen=True)
class Refusal:
    """Why the engine does not take a task."""

    reason: str


def open_engine(task: GraphTask, data: GraphData, without: tuple[str, ...] = ()) -> FastTask | Refusal:
    """`without` names parts of the engine to leave out, see PARTS: to measure how much each gains."""
    if reason := unknown(task, data):
        return Refusal(reason)
    stepper = Stepper(task, data, without)
    try:
        reason = mismatch(task, data, stepper)
    except BaseException:
        stepper.release()
        raise
    if reason:
        stepper.release()
        return Refusal(reason)
    return FastTask(task, stepper)


def unknown(task: GraphTask, data: GraphData) -> str | None:
    """A part that the engine has no code for, if any."""
    model: Any = task.model
    exact: list[tuple[str, Any, tuple[type, ...]]] = [
        ("task", task, (GraphTask,)),
        ("data", data, (GraphData,)),
        ("data set", data.store, (GraphStore,)),
        ("objective", task.objective, tuple(LOSSES)),
        ("model", model, (GraphModel,)),
    ]
    if type(model) is GraphModel:
        head: Any = model.head
        exact += [
            ("backbone", model.backbone, (GCN,)),
            ("readout", model.readout, tuple(POOLS)),
            ("head", head, (Head,)),
            ("scale", model.scale, (NoneType,)),
            ("scaling of the features", model.features, (NoneType,)),
        ]
        if type(model.backbone) is GCN and type(head) is Head:
            activations = (model.backbone.activation, model.backbone.last_activation, head.activation)
            exact += [("activation", each, tuple(getattr(nn, name) for name in KINDS)) for each in activations]
            exact += [("normalisation", each, (nn.Identity,)) for each in model.backbone.norms]
            exact += [("dropout", each, (Dropout,)) for each in (model.backbone.dropout, head.dropout)]
            exact += [("layer of the head", each, (nn.Linear,)) for each in (*head.inner, head.last)]
            exact += [("layer of the head", head.first, (nn.Linear, RaggedLinear))]
    for name, part, kinds in exact:
        if type(part) not in kinds:
            kind = type(part.module if type(part) is Adapted else part)
            return f"the engine does not know the {name} {kind.__name__}"
    return _customised(task, data) or _unfit(task, data)


def _customised(task: GraphTask, data: GraphData) -> str | None:
    """Hooks, or methods replaced on an object: the engine would never call them. Hooks are private to torch (2.13)."""
    if nn.modules.module._has_any_global_hook():
        return "there are hooks on all modules"
    if torch_optimizer._global_optimizer_pre_hooks or torch_optimizer._global_optimizer_post_hooks:
        return "there are hooks on all optimisers"
    for name, module in task.named_modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
        if any(hooks):
            return f"there is a hook on {name or 'the task'}"
    for owner in (*task.modules(), task.objective, data, data.store):
        for name, value in vars(owner).items():
            if callable(value) and not isinstance(value, nn.Module) and callable(getattr(type(owner), name, None)):
                return f"{type(owner).__name__}.{name} was replaced"
    for name, parameter in task.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            return f"there is a hook on {name}"
    return None


def _unfit(task: GraphTask, data: GraphData) -> str | None:
    """A dtype, device or layout that the compiled loops do not take."""
    for name, parameter in task.named_parameters():
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            return f"{name} is {parameter.dtype} on {parameter.device.type}; the engine takes torch.float32 on the CPU"
        if not parameter.requires_grad or not parameter.is_contiguous():
            return f"{name} takes no gradient, or is not contiguous"
    if data.store.device.type != "cpu" or data.store.y.ndim != 1:
        return "the engine takes data on the CPU with one target per graph"
    if np.isnan(data.store.y[data.split.train]).any():
        return "the engine takes no graphs without a label"
    if (outputs := task.model.head.last.out_features) != 1:  # type: ignore[union-attr]
        return f"the head gives {outputs} numbers per graph; the engine takes one"
    objective: Any = task.objective
    if not objective.has_default_loss:
        name = getattr(objective.loss_function, "__name__", type(objective.loss_function).__name__)
        return f"the engine does not know the loss {name}"
    if getattr(objective, "std", None) is not None:
        return "the engine does not know standardised targets"
    if getattr(objective, "pos_weight", None) is not None:
        return "the engine does not know weights of positive labels"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if not task.model.backbone.biases:  # type: ignore[union-attr]
        return "the engine takes layers of Γ that have a bias"
    if task.recipe.optimizer not in OPTIMISERS:
        return f"the engine does not know the optimiser {task.recipe.optimizer}"
    if task.recipe.scheduler != "none":
        return f"the scheduler {task.recipe.scheduler} moves the learning rate"
    if data.train_loader is not TrainLoader:
        return "the data has a training loader of its own"
    head: Any = task.model.head
    largest = int(np.diff(data.store.node_ptr)[data.split.train].max(initial=0))
    if head.takes_rows and largest > head.first.max_nodes:
        return f"a graph has {largest} nodes, but the readout was built for {head.first.max_nodes}"
    return None


def mismatch(task: GraphTask, data: GraphData, stepper: Stepper) -> str | None:
    """One batch both ways; what differs by more than rounding, if anything does. Both are compared with double
    precision, and the definition's own error in single precision is allowed for: if rows nearly tie, a sort may swap
    them.
    """
    step, graphs, copies = next(data.train_plan())
    with torch.random.fork_rng(devices=[]):
        task.seed_noise(step)
        exact_loss, exact = by_autograd(task, data, graphs, copies, torch.float64)  # first, because it checks its input
        task.seed_noise(step)
        _, rounded = by_autograd(task, data, graphs, copies, torch.float32)
        task.seed_noise(step)
        loss = stepper.loss_and_gradients(graphs, copies)
    if not abs(loss - exact_loss) <= TOLERANCE * abs(exact_loss) + 1e-6:
        return f"its loss of the first batch is {loss:.6g} instead of {exact_loss:.6g}"
    whole = sum(float(each.square().sum()) for each in exact.values()) ** 0.5
    for name, parameter in task.model.named_parameters():
        difference = float((torch.from_numpy(stepper.flat.of(parameter)[1]).double() - exact[name]).norm())
        allowed = TOLERANCE * float(exact[name].norm()) + 1e-4 * whole
        if not difference <= allowed + 2 * float((rounded[name] - exact[name]).norm()):
            return f"its gradient of {name} differs from the definition's"
    return None


def by_autograd(
    task: GraphTask, data: GraphData, graphs: np.ndarray, copies: np.ndarray, dtype: torch.dtype = torch.float64
) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients by autograd on the definition, computed in this precision."""
    model = task.model
    weights = {name: each.detach().to(dtype).requires_grad_() for name, each in model.named_parameters()}
    buffers = {name: each.to(dtype) if each.is_floating_point() else each for name, each in model.named_buffers()}
    batch = data.train_batch(graphs, copies)
    loss = task.objective.loss(functional_call(model, weights | buffers, (batch,)), batch.y)
    gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    made = zip(weights.items(), gradients, strict=True)
    return loss.item(), {name: torch.zeros_like(w) if grad is None else grad for (name, w), grad in made}
