"""Compare the ended runs of a runs folder with MLflow, and deliver what is missing there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from permlab.platform.errors import DamagedFile
from permlab.platform.files.liveness import is_driven, is_held
from permlab.platform.tracking.cell_delivery import CellDelivery, read_run
from permlab.platform.tracking.courier import LOCK
from permlab.platform.tracking.store import Experiment, connect
from permlab.platform.tracking.sweep_delivery import SweepDelivery, TuningDelivery, read_document, read_plan


@dataclass
class Delivered:
    """The outcome of delivering a runs folder."""

    names: list[str] = field(default_factory=list)  # what the store lacked: keys of cells, names of sweeps
    damaged: dict[Path, DamagedFile] = field(default_factory=dict)  # left out: must be run again
    busy: list[str] = field(default_factory=list)  # skipped: a courier is delivering it


class Backlog:
    """The sweeps, tunings and single runs that have ended in a runs folder, to be compared with the store."""

    def __init__(self, runs: Path) -> None:
        self.client, self.outcome = connect(runs), Delivered()
        self.experiments: dict[str, Experiment] = {}
        self.sweeps = [
            path.parent for part in ("tunings", "sweeps") for path in sorted(runs.glob(f"{part}/*/sweep.json"))
        ]
        self.cells = [path.parent for path in sorted(runs.glob("cells/*/result.json"))]

    def deliver(self, on_run: Callable[[], None] = lambda: None) -> Delivered:
        """`on_run` is called after each run that was compared."""
        in_sweeps: set[tuple[str, str]] = set()  # experiment and key
        for folder in self.sweeps:
            with self._skip_if_damaged():
                in_sweeps |= {(folder.name, cell["key"]) for cell in read_plan(folder)}
                self._sweep(folder, on_run)
        for folder in self.cells:
            with self._skip_if_damaged():
                self._cell(folder, in_sweeps)
            on_run()
        self.outcome.names = [name for experiment in self.experiments.values() for name in experiment.delivered]
        return self.outcome

    def _sweep(self, folder: Path, on_run: Callable[[], None]) -> None:
        ended = bool(read_document(folder)["status"])
        if not ended and is_driven(folder):
            return
        if is_held(folder / LOCK):
            self.outcome.busy.append(folder.name)
            return
        kind = TuningDelivery if folder.parent.name == "tunings" else SweepDelivery
        delivery = kind(folder, self.client, self._experiment(folder.name))
        delivery.on_progress = on_run
        delivery.advance(dead=not ended)
        self.outcome.damaged |= {damage.path: damage for damage in delivery.damaged.values()}

    def _cell(self, folder: Path, in_sweeps: set[tuple[str, str]]) -> None:
        experiment = read_run(folder)["experiment"]
        if (experiment, folder.name) in in_sweeps:
            return
        if is_held(folder / LOCK):
            self.outcome.busy.append(folder.name)
        else:
            CellDelivery(folder, self.client, self._experiment(experiment)).advance()

    def _experiment(self, name: str) -> Experiment:
        if name not in self.experiments:
            self.experiments[name] = Experiment(self.client, name)
        return self.experiments[name]

    @contextmanager
    def _skip_if_damaged(self) -> Iterator[None]:
        try:
            yield
        except DamagedFile as damage:
            self.outcome.damaged[damage.path] = damage
