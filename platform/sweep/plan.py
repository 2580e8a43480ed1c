"""The plan of a sweep: its cells, which of them are done, and what the rest will cost."""

import math
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from permlab.datasets.cache import folder_of
from permlab.datasets.catalogue import parse_name
from permlab.datasets.manifest import Manifest, read_manifest
from permlab.platform.errors import DamagedFile
from permlab.platform.run.stored_result import finished_result, read_finished
from permlab.platform.settings.run import RunSettings, cell_folder, cell_key
from permlab.readouts.names import facts_of

EVALUATION = 3  # epochs of training that take as long as one evaluation, which is in double precision
OVERHEAD = 0.5  # seconds per cell besides training and evaluation


@dataclass
class Cell:
    """A planned cell."""

    settings: RunSettings
    key: str
    seconds: float  # expected
    result: dict[str, Any] | None = None  # if it is done
    tags: dict[str, str] = field(default_factory=dict)  # where its settings come from

    @property
    def folder(self) -> Path:
        return cell_folder(self.settings, self.key)

    @property
    def row(self) -> dict[str, Any]:
        """Its entry in plan.json."""
        names = ("dataset", "method", "d", "seed")
        facts = {name: getattr(self.settings, name) for name in names}
        if self.settings.data.fold is not None:
            facts["fold"] = self.settings.data.fold
        tags = {"tags": self.tags} if self.tags else {}
        return (
            {"key": self.key, "name": self.settings.name} | facts | {"expected_seconds": round(self.seconds, 1)} | tags
        )


def manifest_of(dataset: str) -> Manifest:
    name = parse_name(dataset)
    return read_manifest(folder_of(name), name.text)


def make_plan(cells: list[RunSettings]) -> list[Cell]:
    """All cells, the longest first; their data sets must be built."""
    manifests = {dataset: manifest_of(dataset) for dataset in {cell.dataset for cell in cells}}
    timed = measured_costs(Path(cells[0].runs))
    plan = []
    for settings in cells:
        manifest = manifests[settings.dataset]
        cell = Cell(settings, cell_key(settings, manifest.digest), expected_seconds(settings, manifest, timed))
        cell.result = finished_result(cell.folder)
        plan.append(cell)
    return sorted(plan, key=lambda cell: -cell.seconds)


def measured_costs(runs: Path) -> dict[tuple[str, str, int], float]:
    """Seconds per epoch by (dataset, method, d): the median over the finished cells in the runs folder."""
    timed = defaultdict(list)
    for folder in runs.glob("cells/*"):
        with suppress(DamagedFile):
            result = read_finished(folder)
            if result and result["epochs"]:
                timed[result["dataset"], result["method"], result["d"]].append(result["seconds"] / result["epochs"])
    return {kind: median(seconds) for kind, seconds in timed.items()}


def expected_seconds(settings: RunSettings, manifest: Manifest, timed: dict[tuple[str, str, int], float]) -> float:
    train, kind = settings.train, (settings.dataset, settings.method, settings.d)
    if kind in timed:
        return timed[kind] * train.epochs + OVERHEAD
    fixed, slope = facts_of(settings.method).cost
    passes = train.epochs * (1 + settings.permutations) + EVALUATION * math.ceil(train.epochs / train.eval_every)
    return passes * manifest.nodes * (fixed + slope * settings.d) * 1e-6 + OVERHEAD


def wall_clock(plan: list[Cell], slots: int) -> float:
    """Seconds that the unfinished cells take, `slots` at a time, the longest first."""
    ends = [0.0] * max(1, slots)
    for cell in plan:
        if cell.result is None:
            soonest = min(range(len(ends)), key=ends.__getitem__)
            ends[soonest] += cell.seconds
    return max(ends)
