"""One trial: the grid with one recipe, measured on the training graphs alone."""

from pathlib import Path

import pyarrow.parquet
import pytest

from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.reproduce.distance import DIVERGED, distance, misses
from permlab.platform.reproduce.fit import trial_cells
from permlab.platform.reproduce.settings import ReproduceSettings
from permlab.platform.reproduce.trial import CELLS, FitJob, run_fit_trial
from permlab.platform.run.cell import run_cell
from permlab.platform.run.histories import read_history
from permlab.platform.tuning.trial_task import VERDICT

FOLDER = "tunings/fit/trials/x"


def job(settings: ReproduceSettings) -> FitJob:
    return FitJob(name="fit", cells=trial_cells(settings), runs=settings.runs, folder=FOLDER)


def test_a_trial_is_the_distance_over_its_cells(settings: ReproduceSettings) -> None:
    trial = job(settings)
    assert sorted((cell.method, cell.d) for cell in trial.cells) == [
        ("set2set", 1), ("set2set", 10), ("sum", 1), ("sum", 10),
    ]  # fmt: skip
    result = run_fit_trial(trial)
    folder = Path(settings.runs) / FOLDER
    plain = [run_cell(cell.model_copy(update={"runs": f"{settings.runs}/plain"})) for cell in trial.cells]
    missed = [misses("qm9", cell["method"], cell["d"], "train", cell["metrics"]["train"]) for cell in plain]
    assert result["value"] == distance(missed) and result["epochs"] == 4
    steps = [(entry["epoch"], entry["objective"]) for entry in read_history(folder)]
    assert steps == [(n, distance(missed[:n])) for n in range(1, 5)]
    assert [row["missed"] for row in (read_json(folder / CELLS) or {})["cells"]] == missed
    assert run_fit_trial(trial)["value"] == result["value"]  # from the stored files


def test_nothing_of_the_holdout_is_measured(settings: ReproduceSettings) -> None:
    (cell, *_) = trial_cells(settings)
    result = run_cell(cell)
    assert set(result["metrics"]) == {"train"} and not result["certificate"]
    assert result["graphs"] == {"train": 250, "validation": 0, "holdout": 50}
    predictions = pyarrow.parquet.read_table(Path(settings.runs) / "cells" / result["key"] / "predictions.parquet")
    assert set(predictions["split"].to_pylist()) == {"train"}


def test_a_pruned_trial_ends_after_its_cell(settings: ReproduceSettings) -> None:
    folder = Path(settings.runs) / FOLDER
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {})
    write_json(folder / VERDICT, {"step": 2, "stop": False})
    write_json(folder / VERDICT, {"step": 1, "stop": True})
    result = run_fit_trial(job(settings))
    assert "value" not in result and result["epochs"] == 1


@pytest.mark.parametrize("engine", ["fast", "plain"])
def test_a_recipe_that_diverges_is_bad_not_broken(settings: ReproduceSettings, engine: str) -> None:
    wild = settings.train.model_copy(update={"optimizer": "sgd", "learning_rate": 1e6, "engine": engine})
    result = run_fit_trial(job(settings.model_copy(update={"train": wild, "d": [10], "method": ["sum"]})))
    assert result["value"] == DIVERGED
