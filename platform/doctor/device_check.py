"""One training step of every readout of the paper on an accelerator and on the CPU: are the numbers the same?

`permlab doctor` runs this file as a process of its own: a device that hangs or crashes must not take the doctor along.
"""

import copy
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from permlab.datasets.batch import GraphBatch
from permlab.platform.run.process_settings import CUBLAS, process_for_runs
from permlab.readouts.catalogue import build
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.gcn import GCN
from permlab.tasks.model import GraphModel, Head
from permlab.tasks.objectives import BinaryClassification

GRAPHS, MAX_NODES, FEATURES, D = 64, 30, 8, 10
TIMED = 5  # steps, after the one whose numbers are compared
TOLERANCE = 1e-3  # of ‖difference‖ / ‖CPU's‖: float32 gives 1e-5; two nodes that nearly tie may change places


@dataclass(frozen=True)
class StepCheck:
    """A readout's step on the device; `problem` is empty if it agrees with the CPU's."""

    method: str
    problem: str
    device_seconds: float = float("nan")
    cpu_seconds: float = float("nan")


def check_steps(device: torch.device, methods: Sequence[str] = PAPER_METHODS) -> Iterator[StepCheck]:
    """Loss and every gradient, there and on the CPU, and how long a step takes on each."""
    batch = random_batch()
    for method in methods:
        torch.manual_seed(0)
        readout = build(method, D, MAX_NODES)
        model = GraphModel(GCN(FEATURES, 50, D), readout, Head(readout))
        expected, cpu_seconds = _step(copy.deepcopy(model), batch)
        try:
            found, device_seconds = _step(model.to(device), batch.to(device))
        except Exception as error:  # whatever a driver may raise
            reason = str(error).strip().splitlines() or [""]
            yield StepCheck(method, f"{type(error).__name__}: {reason[0]}"[:200])
            continue
        yield StepCheck(method, _difference(expected, found), device_seconds, cpu_seconds)


def random_batch() -> GraphBatch:
    """Graphs of 1 to MAX_NODES nodes with about three edges per node."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, MAX_NODES + 1, (GRAPHS,), generator=generator)
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    start, size = (of_graph.repeat_interleave(3 * sizes) for of_graph in (ptr[:-1], sizes))
    edge_index = (torch.rand(2, len(size), generator=generator) * size).long() + start
    x = torch.randn(int(ptr[-1]), FEATURES, generator=generator)
    return GraphBatch(x, edge_index, ptr, torch.arange(GRAPHS) % 2.0)


def _step(model: GraphModel, batch: GraphBatch) -> tuple[dict[str, Tensor], float]:
    """Loss and gradients of a step, brought to the host, and the seconds of the fastest of some more."""
    optimizer, loss_of = torch.optim.Adam(model.parameters()), BinaryClassification().loss

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    numbers = {"the loss": step()}
    for name, weight in model.named_parameters():
        numbers[f"the gradient of {name}"] = torch.zeros_like(weight) if weight.grad is None else weight.grad
    numbers = {name: value.cpu().clone() for name, value in numbers.items()}
    seconds = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        step()
        float(list(model.parameters())[-1].detach().sum())  # the device is done when its last number is here
        seconds.append(time.perf_counter() - begin)
    return numbers, min(seconds)


def _difference(expected: dict[str, Tensor], found: dict[str, Tensor]) -> str:
    """Which number differs most, if it differs by more than rounding."""
    relative = {
        name: float((found[name] - value).norm() / value.norm().clamp(min=1e-12)) for name, value in expected.items()
    }
    worst = max(relative, key=lambda name: (relative[name] != relative[name], relative[name]))  # NaN is worst
    return "" if relative[worst] <= TOLERANCE else f"{worst} differs by {relative[worst]:.1e} of its size"


def main() -> None:
    """One line of JSON per readout, as soon as it is known; none without an accelerator."""
    device = torch.accelerator.current_accelerator(check_available=True)
    os.environ.setdefault(CUBLAS, ":4096:8")  # without it CUDA has no deterministic products
    with process_for_runs(None):
        for check in check_steps(device) if device else ():
            sys.stdout.write(json.dumps(asdict(check)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
