"""One training step of every readout of the paper on an accelerator and on the CPU: are the numbers the same?

`permlab doctor` runs this file in a separate process, so a device that hangs or crashes does not take it down.
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
TOLERANCE = 1e-3  # of ‖difference‖ / ‖CPU's‖: float32 gives 1e-5, but two nodes that nearly tie may swap places


@dataclass(frozen=True)
class StepCheck:
    """A readout's step on the device; `problem` is empty if it agrees with the CPU's."""

    method: str
    problem: str
    device_seconds: float = float("nan")
    cpu_seconds: float = float("nan")


def check_steps(device: torch.device, methods: Sequence[str] = PAPER_METHODS) -> Iterator[StepCheck]:
    """Compare the loss and every gradient with the CPU's, and time a step on both."""
    batch = random_batch()
    for method in methods:
        torch.manual_seed(0)
        readout = build(method, D, MAX_NODES)
        model = GraphModel(GCN(FEATURES, 50, D), readout, Head(readout))
        on_cpu, cpu_seconds = _step(copy.deepcopy(model), batch)
        try:
            on_device, device_seconds = _step(model.to(device), batch.to(device))
        except Exception as error:  # whatever a driver may raise
            reason = str(error).strip().splitlines() or [""]
            yield StepCheck(method, f"{type(error).__name__}: {reason[0]}"[:200])
            continue
        yield StepCheck(method, _difference(on_cpu, on_device), device_seconds, cpu_seconds)


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
    """Loss and gradients of one step, copied to the CPU, and the seconds of the fastest of TIMED further steps."""
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
        float(list(model.parameters())[-1].detach().sum())  # copying a number waits for the device
        seconds.append(time.perf_counter() - begin)
    return numbers, min(seconds)


def _difference(on_cpu: dict[str, Tensor], on_device: dict[str, Tensor]) -> str:
    """Which number differs most; empty if all are within TOLERANCE."""
    relative = {
        name: float((on_device[name] - value).norm() / value.norm().clamp(min=1e-12)) for name, value in on_cpu.items()
    }
    worst = max(relative, key=lambda name: (relative[name] != relative[name], relative[name]))  # NaN is worst
    return "" if relative[worst] <= TOLERANCE else f"{worst} differs by {relative[worst]:.1e} of its size"


def main() -> None:
    """Print one line of JSON per readout as soon as it is checked; nothing without an accelerator."""
    device = torch.accelerator.current_accelerator(check_available=True)
    os.environ.setdefault(CUBLAS, ":4096:8")  # otherwise CUDA's matrix products are not deterministic
    with process_for_runs(None):
        for check in check_steps(device) if device else ():
            sys.stdout.write(json.dumps(asdict(check)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
