"""A sweep as it was stored, in the runs folder or in MLflow: all that a report may look at."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from permlab.platform.report.used import Used, used
from permlab.readouts.names import methods_in_order
from permlab.tasks.metrics import Metric, headline_of, in_order, remember

TAGS = ("numerics", "objective", "git.commit", "versions")  # of a cell's run, columns of `cells`

SPLITS = {
    "train": "training",
    "validation": "validation",
    "holdout": "holdout",
    "holdout_perm": "holdout, permuted",
}


def one_of(units: str) -> str:
    """`seeds` → `seed`"""
    return " or ".join(word.removesuffix("s") for word in units.split(" or "))


@dataclass
class StoredTuning:
    """What tuned a sweep: the chosen settings, the studies they come from, and the sweep with the default settings."""

    chosen: list[dict[str, Any]]
    studies: list[dict[str, Any]]
    default: "StoredSweep | None"


@dataclass
class StoredSweep:
    """`cells`: one row per planned cell (key, name, dataset, method, d, seed, status, error, TAGS, params: its settings
    as text, max_nodes: of its largest graph, and what was measured at its end under the names of the metrics);
    `histories`: one row per cell and evaluated epoch; `params`: the settings of the sweep as text.
    """

    name: str
    status: str
    store: str  # the address of the store it was read from; empty: the runs folder
    run_id: str
    cells: pd.DataFrame
    histories: pd.DataFrame
    speed: dict[str, Any] | None = None  # the last `permlab bench train` in the runs folder
    tuning: StoredTuning | None = None
    undelivered: int = 0  # cells that are finished on disk, but not in the store
    tracked: bool = True
    params: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for objective in self._objectives(self.cells):
            for name, (label, higher_is_better) in objective["metrics"].items():
                remember(name, Metric(label, higher_is_better))

    def _objectives(self, cells: pd.DataFrame) -> list[dict[str, Any]]:
        """What these cells measure, as they stored it; those of older versions stored nothing."""
        texts = cells["objective"].dropna().unique() if "objective" in cells else []
        return [json.loads(text) for text in texts if text]

    @property
    def place(self) -> str:
        """Where it was read from, less the folders and passwords that a page passed on should not tell."""
        if not self.store:
            return "the runs folder"
        return "MLflow (SQLite)" if self.store.startswith("sqlite") else f"MLflow at {urlsplit(self.store).hostname}"

    @cached_property
    def finished(self) -> pd.DataFrame:
        return self.cells[self.cells["status"] == "FINISHED"]

    @cached_property
    def values(self) -> pd.DataFrame:
        """The metrics of the finished cells, one row each: dataset, d, method, seed, block, split, metric, value. A
        block is what tests count: a fold, whose runs are averaged, or else a seed.
        """
        names = [name for name in self.cells.columns if name.partition("/")[0] in SPLITS and "running" not in name]
        facts = ["dataset", "d", "method", "seed", "block"]
        folded = self.finished["dataset"].map({name: self.unit(name) == "folds" for name in self.datasets})
        block = self._folds.where(folded.astype(bool), self.finished["seed"].astype(str))
        long = self.finished.assign(block=block).melt(facts, names, "name", "value").dropna(subset="value")
        parts = long.pop("name").str.split("/", n=1, expand=True)
        return long.assign(split=parts[0] if len(long) else "", metric=parts[1] if len(long) else "")

    @property
    def protocol(self) -> str:
        return self.params.get("protocol", "paper")

    @property
    def _folds(self) -> pd.Series:
        """The fold of every finished cell, as text; None without folds."""
        cells = self.finished
        folds = [params.get("data.fold", "None") for params in cells["params"]] if "params" in cells else "None"
        return pd.Series(folds, index=cells.index, dtype=str)

    def unit(self, dataset: str) -> str:
        """What the means are over: folds, if cells of several are finished, or else seeds."""
        folds = self._folds[self.finished["dataset"] == dataset]
        return "folds" if folds.nunique() > 1 else "seeds"

    @property
    def units(self) -> str:
        """`seeds`, `folds`, or `folds or seeds` if data sets differ."""
        return " or ".join(sorted({self.unit(dataset) for dataset in self.datasets}))

    def runs_of(self, dataset: str) -> str:
        """What a mean over all runs is over: a fold may have several."""
        return "seeds" if self.unit(dataset) == "seeds" else "the runs of all folds"

    def settings(self, dataset: str) -> Used:
        """The settings of the finished cells of a data set; empty if none are stored."""
        cells = self.finished_of(dataset)
        if "params" not in cells:
            return {}
        return used(zip(cells["method"], cells["d"], cells["params"], strict=True))

    def sizes(self, dataset: str, part: str) -> list[float]:
        """How many graphs a part of the split has in the finished cells, as far as that is stored."""
        column = self.finished_of(dataset).get(f"graphs/{part}")
        return [] if column is None else sorted(column.dropna().unique())

    def finished_of(self, dataset: str) -> pd.DataFrame:
        return self.finished[self.finished["dataset"] == dataset]

    @property
    def datasets(self) -> list[str]:
        return sorted(self.cells["dataset"].unique())

    @property
    def methods(self) -> list[str]:
        """In the paper's order, then the other methods."""
        return methods_in_order(self.cells["method"])

    def widths(self, dataset: str) -> list[int]:
        return [int(d) for d in sorted(self.cells.loc[self.cells["dataset"] == dataset, "d"].unique())]

    def metrics(self, dataset: str) -> list[str]:
        """The metrics that were measured, in the paper's order; the loss last."""
        return in_order(self.values.loc[self.values["dataset"] == dataset, "metric"].unique())

    def headline(self, dataset: str) -> str | None:
        """The metric that a person looks at first."""
        measured = self.metrics(dataset)
        stored = [objective["headline"] for objective in self._objectives(self.finished_of(dataset))]
        return next((name for name in stored if name in measured), headline_of(measured)) or None

    def splits(self, dataset: str) -> list[str]:
        names = set(self.values.loc[self.values["dataset"] == dataset, "split"])
        return [split for split in SPLITS if split in names]

    def judged_by(self, dataset: str) -> str | None:
        """The split whose headline metric decides which method is best; None if nothing has finished."""
        return next((name for name in ("holdout", "validation") if name in self.splits(dataset)), None)
