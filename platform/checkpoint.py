"""The state of a run on disk: written whole or not at all, read without unpickling code."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from permlab.platform.errors import RunError


@dataclass
class RunState:
    """Where a run stands: `epoch` and `batch` come next; `history` holds what was measured so far."""

    key: str
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    scheduler: dict[str, Any] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)  # of losses, where training is in half precision
    numerics: list[dict[str, Any]] = field(default_factory=list)  # all that took part, in their order
    best_score: float | None = None  # of the headline metric on the validation part, where `train.patience` is set
    best_epoch: int | None = None
    best_weights: dict[str, Any] = field(default_factory=dict)
    waited: int = 0  # evaluations since then


def save_state(state: RunState, path: Path) -> None:
    save_atomically(vars(state), path)


def save_atomically(document: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part{os.getpid()}")
    try:
        torch.save(document, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load_state(path: Path, key: str) -> RunState:
    """The saved state, or a fresh one if there is none."""
    if not path.exists():
        return RunState(key)
    try:
        state = RunState(**torch.load(path, weights_only=True, map_location="cpu"))
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise RunError(f"{path} cannot be read ({type(error).__name__}); remove it to start this run anew") from None
    if state.key != key:
        raise RunError(f"{path} belongs to another run (key {state.key}); remove it to start this run anew")
    return state
