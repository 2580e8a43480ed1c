"""A finished run, as a Python caller sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from permlab.platform.run.histories import read_history
from permlab.platform.run.stored_result import PREDICTIONS

if TYPE_CHECKING:
    from torch import nn

    from permlab.platform.run.predict import FinishedRun
    from permlab.platform.settings.run import RunSettings


@dataclass(frozen=True)
class Result:
    """A finished run. Files are read on first use; those of a run in MLflow are downloaded then."""

    name: str
    metrics: dict[str, dict[str, float | None]]  # split → metric → value
    locate: Callable[[], Path] = field(repr=False)

    @cached_property
    def folder(self) -> Path:
        """Where the run's files are."""
        return self.locate()

    @cached_property
    def _run(self) -> "FinishedRun":
        from permlab.platform.run.predict import FinishedRun

        return FinishedRun.load(self.folder)

    @property
    def settings(self) -> "RunSettings":
        return self._run.settings

    @property
    def model(self) -> "nn.Module":
        """Γ, readout and ζ with the trained weights: a module that takes a GraphBatch."""
        return self._run.model.eval()

    @cached_property
    def history(self) -> pd.DataFrame:
        """One row per epoch; metrics not measured after an epoch are NaN."""
        return pd.DataFrame(read_history(self.folder))

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """One row per graph of each split: split, graph_id, y, prediction."""
        return pd.read_parquet(self.folder / PREDICTIONS)

    def frame(self) -> pd.DataFrame:
        """The metrics: one row per split, one column per metric."""
        return pd.DataFrame.from_dict(self.metrics, orient="index")


def result_of(settings: "RunSettings", document: dict[str, Any]) -> Result:
    """`document` is the content of result.json."""
    from permlab.platform.errors import RunError
    from permlab.platform.settings.run import cell_folder

    def locate() -> Path:
        if settings.temporary:
            raise RunError(f"{settings.name} has no files: train.fast_dev_run and train.overfit_batches keep none")
        return cell_folder(settings, document["key"])

    return Result(settings.name, document["metrics"], locate)
