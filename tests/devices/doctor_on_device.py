"""What `permlab doctor` reports about the simulated device; run by tests/tasks/test_devices.py."""

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from permlab.platform.doctor.device_check import StepCheck, check_steps
from permlab.readouts.names import PAPER_METHODS
from permlab.readouts.pooling import SortPooling, Sum
from permlab.readouts.segments import segment_sum

SIM = torch.device("sim")


def test_every_readout_of_the_paper_agrees_with_the_cpu() -> None:
    checks = list(check_steps(SIM))
    assert [check.method for check in checks] == list(PAPER_METHODS)
    assert [check.problem for check in checks] == [""] * len(checks)
    assert all(0 < seconds < 10 for check in checks for seconds in (check.device_seconds, check.cpu_seconds))


@pytest.mark.parametrize("factor", [1.02, float("nan")])
def test_a_readout_with_other_numbers_there_is_named(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(self: Sum, x: Tensor, ptr: Tensor) -> Tensor:
        return segment_sum(x, ptr) * (factor if x.device.type == "sim" else 1)

    monkeypatch.setattr(Sum, "pool", pool)
    wrong = problems(check_steps(SIM, ("sum", "kernels")))
    assert list(wrong) == ["sum"] and "differs by" in wrong["sum"]


def test_a_wrong_gradient_alone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(self: Sum, x: Tensor, ptr: Tensor) -> Tensor:
        exact = segment_sum(x, ptr)
        return (exact + exact.detach()) / 2 if x.device.type == "sim" else exact

    monkeypatch.setattr(Sum, "pool", pool)
    assert "gradient of backbone" in problems(check_steps(SIM, ("sum", "kernels")))["sum"]


def test_a_readout_that_fails_there_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(self: SortPooling, x: Tensor, ptr: Tensor) -> Tensor:
        if x.device.type == "sim":
            raise NotImplementedError("no kernel\nand many lines more")
        return x

    monkeypatch.setattr(SortPooling, "rows", rows)
    wrong = problems(check_steps(SIM, ("sort", "identity")))
    assert list(wrong) == ["sort"] and "NotImplementedError: no kernel" in wrong["sort"] and "\n" not in wrong["sort"]


def problems(checks: Iterable[StepCheck]) -> dict[str, str]:
    return {check.method: check.problem for check in checks if check.problem}
