"""How far a run is: read from its files while it trains, as cheaply as possible, for people to look at."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permlab.platform.files.json_files import read_json
from permlab.tasks.metrics import Metric, headline_of, metric_label, remember

SHOWN = ("holdout", "validation", "train")  # the split whose headline metric is shown: the first that was measured
UNMEASURED = {"epoch", "train/running_loss", "seal"}


class Follower:
    """Follows a file of epochs that grows (history.jsonl); each look reads only what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._restart()

    def _restart(self) -> None:
        self.offset, self.epoch = 0, 0
        self.measured: dict[str, Any] = {}  # the last evaluation
        self.began: tuple[float, int] | None = None  # when it was first seen to train, and its epochs then

    def look(self) -> None:
        """A look at a file that is missing, or that another node is writing, finds nothing new."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self.offset:  # a new attempt
                    self._restart()
                file.seek(self.offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return
        self.offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            self.epoch = int(entry["epoch"])
        except (ValueError, KeyError, TypeError):
            return
        if measured := {name: value for name, value in entry.items() if name not in UNMEASURED}:
            self.measured = measured
        if self.began is None:
            self.began = time.monotonic(), self.epoch

    def seconds_left(self, epochs: int) -> float | None:
        """At the pace since the first look; None while that is unknown."""
        if self.began is None or self.epoch <= self.began[1]:
            return None
        pace = (time.monotonic() - self.began[0]) / (self.epoch - self.began[1])
        return pace * max(epochs - self.epoch, 0)


def stored_headline(folder: Path) -> str:
    """The headline metric of a run that has begun, from its run.json; empty if it does not say."""
    tags = (read_json(folder / "run.json") or {}).get("tags", {})
    objective = json.loads(tags.get("objective") or "{}")
    for name, metric in objective.get("metrics", {}).items():
        remember(name, Metric(*metric))
    headline: str = objective.get("headline", "")
    return headline


def headline_value(measured: Mapping[str, Any], headline: str) -> tuple[str, float] | None:
    """What a person looks at first, as ("holdout MAE", 0.63), of metrics by the name split/metric."""
    split = next((split for split in SHOWN if any(name.startswith(f"{split}/") for name in measured)), "")
    metrics = [name.removeprefix(f"{split}/") for name in measured if name.startswith(f"{split}/")]
    metric = headline if headline in metrics else headline_of(metrics)
    value = measured.get(f"{split}/{metric}")
    return None if value is None else (f"{split} {metric_label(metric)}", value)


def flat(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """{split: {metric: v}} → {"split/metric": v}."""
    return {f"{split}/{metric}": value for split, part in metrics.items() for metric, value in part.items()}
