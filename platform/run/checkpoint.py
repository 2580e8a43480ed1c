"""The state of a run on disk: written whole or not at all, checked and read without unpickling code.

A checkpoint is a file of torch.save followed by its SHA-256. The previous checkpoint is kept too: if the last one is
damaged, the run resumes from the previous one; if both are, it starts anew.
"""

import hashlib
import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from permlab.platform.display.console import note
from permlab.platform.errors import DamagedFile
from permlab.platform.files.whole_file import whole_file

FILE_NAME = "checkpoint.pt"
DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass
class RunState:
    """The state of a run: `epoch` and `batch` come next; `history` holds the metrics so far."""

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
    scaler: dict[str, Any] = field(default_factory=dict)  # loss scaler, if training is in half precision
    numerics: list[dict[str, Any]] = field(default_factory=list)  # of every process that trained it, in order
    best_score: float | None = None  # headline metric on the validation part, if `train.patience` is set
    best_epoch: int | None = None
    best_weights: dict[str, Any] = field(default_factory=dict)
    waited: int = 0  # evaluations since the best one
    ended_early: str = ""  # where a callback ended the training, if one did before the last epoch
    callbacks: dict[str, Any] = field(default_factory=dict)  # states of those that the settings name


def save_state(state: RunState, path: Path) -> None:
    """Write the state to `path`, synced to the disk; the checkpoint there becomes the previous one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        digest = _save(vars(state), file)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
        if path.exists():
            path.replace(before(path))


def save_weights(weights: dict[str, Any], path: Path) -> str:
    """Write a plain file of torch.save; returns its SHA-256."""
    with whole_file(path) as file:
        return _save(weights, file).hexdigest()


def _save(document: dict[str, Any], file: io.BufferedRandom) -> "hashlib._Hash":
    try:
        torch.save(document, file)
    except RuntimeError as error:  # on a full disk torch fails again closing its archive: raise the cause
        raise error.__context__ or error from None
    file.seek(0)
    return hashlib.file_digest(file, "sha256")


def load_state(path: Path, key: str) -> RunState:
    """The last whole state, or the previous one, or a fresh one if both are damaged; removes damaged files."""
    damaged: list[DamagedFile] = []
    state = RunState(key)
    for place in (path, before(path)):
        try:
            state = _read(place, key)
            break
        except FileNotFoundError:
            continue
        except DamagedFile as damage:
            damaged.append(damage)
    then = f"resumes in epoch {state.epoch + 1}" if state.model else "starts anew"
    for error in damaged:
        error.path.unlink(missing_ok=True)  # else it would become the previous checkpoint
        note(f"{error}; the run {then}")
    return state


def before(path: Path) -> Path:
    """The path of the checkpoint previous to the one at `path`."""
    return path.with_suffix(".before")


def remove_state(path: Path) -> None:
    for place in (path, before(path)):
        place.unlink(missing_ok=True)


def _read(path: Path, key: str) -> RunState:
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror})") from None
    document, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if hashlib.sha256(document).digest() != digest:
        raise DamagedFile(path, "its content does not match its digest")
    try:
        state = RunState(**torch.load(io.BytesIO(document), weights_only=True, map_location="cpu"))
    except Exception as error:  # written by another version of PermLab or torch; torch.load raises many kinds
        raise DamagedFile(path, f"this version cannot read it ({type(error).__name__})") from None
    if state.key != key:
        raise DamagedFile(path, f"it belongs to another run (key {state.key})")
    return state
