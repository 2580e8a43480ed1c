"""The digest of live objects: the same in every process, another when anything that they use changes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from permlab.platform.plugins.fingerprint import fingerprint

POWER = 1


def helper(x: float) -> float:
    return x**POWER


def made(width: int) -> type:
    class Local:
        def call(self, x: float) -> float:
            return helper(x) * width

    return Local


def test_a_constant_and_a_closure_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(made(2))
    assert fingerprint(made(2)) == before != fingerprint(made(3))
    monkeypatch.setitem(globals(), "POWER", 3)
    assert fingerprint(made(2)) != before


def test_weights_count_and_addresses_do_not() -> None:
    one, two = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    two.load_state_dict(one.state_dict())
    assert fingerprint(one) == fingerprint(two)
    with torch.no_grad():
        two.weight[0, 0] += 1
    assert fingerprint(one) != fingerprint(two)


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    program = """
import torch
from permlab.platform.plugins.fingerprint import fingerprint
torch.manual_seed(0)
class Mine(torch.nn.Module):
    names = {"a", "b", "c", "d"}
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    def forward(self, x):
        return self.inner(x)
print(fingerprint(Mine), fingerprint(Mine()))
"""
    file = tmp_path / "script.py"
    file.write_text(program)
    answers = {
        subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True).stdout for _ in range(2)
    }
    assert len(answers) == 1
