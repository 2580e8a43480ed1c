"""LeanAdam against torch's own: parameters and state the same to the last bit."""

import copy

import pytest
import torch

from permlab.tasks.optimizer import LeanAdam


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}])
def test_the_same_steps_as_torchs_adam(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    theirs = copy.deepcopy(ours)
    lean = LeanAdam(ours.parameters(), lr=0.01, fused=True, **options)
    plain = torch.optim.Adam(theirs.parameters(), lr=0.01, fused=True, **options)
    train(ours, lean, range(5))
    resumed = LeanAdam(ours.parameters(), lr=0.01, fused=True, **options)
    train(ours, resumed, range(0))
    resumed.load_state_dict(copy.deepcopy(lean.state_dict()))
    train(ours, resumed, range(5, 9))
    train(theirs, plain, range(9))
    for left, right in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(left, right)
    assert [entry["step"].item() for entry in resumed.state_dict()["state"].values()] == [9.0] * 4


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    used, unused = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = LeanAdam([used, unused], lr=0.1, fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        used.sum().backward()
        optimizer.step()
    assert unused.tolist() == [1, 1] and used[0] < 0.8


def test_a_parameter_that_misses_some_gradients_counts_its_own_steps() -> None:
    """Lean steps, a step with a gradient missing, lean steps: as torch does it."""
    found = []
    for kind in (LeanAdam, torch.optim.Adam):
        always, sometimes = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
        optimizer = kind([always, sometimes], lr=0.1, fused=True)
        for step in range(9):
            optimizer.zero_grad()
            (always.square().sum() + (sometimes.square().sum() if step not in (3, 4) else 0)).backward()
            optimizer.step()
            if step == 6:
                optimizer.state_dict()
        state = optimizer.state_dict()["state"]
        found.append([always.tolist(), sometimes.tolist(), state[0]["step"].item(), state[1]["step"].item()])
    assert found[0] == found[1] and found[0][2:] == [9, 7]
