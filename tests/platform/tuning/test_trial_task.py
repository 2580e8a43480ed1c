"""One trial: real training, measured on validation parts, and a holdout that it must not touch."""

import dataclasses
import json
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from permlab.datasets.cache import build, folder_of
from permlab.datasets.catalogue import parse_name
from permlab.datasets.sources.base import file_digest
from permlab.datasets.store import GraphStore
from permlab.platform.files.json_files import write_json
from permlab.platform.run.histories import read_history
from permlab.platform.settings.run import DataSettings, RunSettings
from permlab.platform.tuning.trial_task import PROGRESS, VERDICT, TrialJob, run_trial

DATA = "synthetic,graphs=300,max_nodes=12,task=classification"
SEEDS = [5, 6]


def job(runs: Path, **train: Any) -> TrialJob:
    settings = RunSettings(
        dataset=DATA,
        d=3,
        threads=1,
        train={"epochs": 4, "eval_every": 2} | train,  # type: ignore[arg-type]
        data={"validation": 0.2, "split_seed": 1},  # type: ignore[arg-type]
    )
    folder = "tunings/t/trials/x"
    return TrialJob(name="t", settings=settings, seeds=SEEDS, metric="auc", runs=str(runs), folder=folder)


def test_a_trial_is_the_mean_of_its_seeds_last_evaluations(tmp_path: Path) -> None:
    from permlab.platform.run.cell import run_cell

    build(DATA)
    trial = job(tmp_path)
    cells = [trial.settings.model_copy(update={"seed": seed, "runs": str(tmp_path / "plain")}) for seed in SEEDS]
    finals = [run_cell(cell)["metrics"]["validation"]["auc"] for cell in cells]
    result = run_trial(trial)
    assert result["value"] == mean(finals) and result["epochs"] == 8
    history = read_history(tmp_path / trial.folder)
    assert [entry["epoch"] for entry in history] == [2, 4]  # on the scale of epochs: those of the first seed
    assert history[1]["objective"] == finals[0]
    shown = [json.loads(line) for line in (tmp_path / trial.folder / PROGRESS).read_text().splitlines()]
    assert [entry["epoch"] for entry in shown] == [2, 4, 6, 8] and shown[-1]["validation/auc"] == mean(finals)
    assert not list(tmp_path.glob("tunings/t/cells/*/weights.pt"))
    assert run_trial(trial)["value"] == result["value"]  # from the stored files
    assert read_history(tmp_path / trial.folder) == history


def test_seed_by_seed_a_step_is_a_seed(tmp_path: Path) -> None:
    build(DATA)
    trial = job(tmp_path).model_copy(update={"by_seed": True})
    result = run_trial(trial)
    history = read_history(tmp_path / trial.folder)
    assert [entry["epoch"] for entry in history] == [1, 2] and result["epochs"] == 8
    assert mean(entry["objective"] for entry in history) == result["value"]


def test_a_trial_pruned_after_its_first_seed_does_not_begin_the_second(tmp_path: Path) -> None:
    build(DATA)
    trial = job(tmp_path, eval_every=4)
    folder = tmp_path / trial.folder
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {})
    write_json(folder / VERDICT, {"step": 4, "stop": True})  # its only step
    result = run_trial(trial)
    assert "value" not in result and result["epochs"] == 4
    assert len(list(tmp_path.glob("tunings/t/cells/*"))) == 1


def test_a_pruned_trial_ends_at_the_next_evaluation(tmp_path: Path) -> None:
    build(DATA)
    trial = job(tmp_path, epochs=10**6)
    folder = tmp_path / trial.folder
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {})
    write_json(folder / VERDICT, {"step": 2, "stop": True})
    result = run_trial(trial)
    assert "value" not in result and result["epochs"] == 2
    assert not list(tmp_path.glob("tunings/t/cells/*/checkpoint.pt"))


def test_each_seed_has_its_own_validation_part_and_all_share_the_holdout() -> None:
    store = GraphStore.open(DATA, build_missing=True)
    first, second = (store.split(1, None, 0.2, seed) for seed in SEEDS)
    assert np.array_equal(first.holdout, second.holdout)
    assert not np.array_equal(first.validation, second.validation)
    for part in (first.train, first.validation):
        assert not np.intersect1d(part, first.holdout).size
    assert np.array_equal(store.split(1, None, 0.2, 1).validation, store.split(1, None, 0.2).validation)


@pytest.mark.parametrize("method", ["sum", "ordering"])
def test_the_holdout_is_not_read(tmp_path: Path, method: str) -> None:
    """Destroy on disk what runs read of the holdout's graphs: Â·Z, Â and targets. Trials do not notice."""
    build(DATA)
    settings = job(tmp_path).settings.model_copy(update={"method": method})
    before = run_trial(job(tmp_path / "before").model_copy(update={"settings": settings}))
    destroy_holdout(1)
    after = run_trial(job(tmp_path / "after").model_copy(update={"settings": settings}))
    assert after["value"] == before["value"]
    store = GraphStore.open(DATA)
    assert np.isnan(store.batch(store.split(1).holdout).az.numpy()).all()  # it really was destroyed
    with pytest.raises(Exception, match="loss is nan"):  # and a run that reads it does notice
        from permlab.platform.run.cell import run_cell

        data = DataSettings(split_seed=1)
        run_cell(settings.model_copy(update={"runs": str(tmp_path / "sweep"), "data": data}))


def destroy_holdout(split_seed: int) -> None:
    """Write NaN to all entries of Â·Z and Â and all targets of the graphs that this seed holds out."""
    store = GraphStore.open(DATA)
    held = store.split(split_seed).holdout
    node_ptr, a_ptr = np.array(store.node_ptr), np.array(store.a_ptr)
    folder = folder_of(parse_name(DATA))
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in ("az", "a_value", "y")}
    for graph in held:
        first, last = node_ptr[graph], node_ptr[graph + 1]
        arrays["az"][first:last] = np.nan
        arrays["a_value"][a_ptr[first] : a_ptr[last]] = np.nan
        arrays["y"][graph] = np.nan
    for array in arrays.values():
        array.flush()
    digests = [dataclasses.replace(e, sha256=file_digest(folder / e.file)) for e in store.manifest.arrays]
    dataclasses.replace(store.manifest, arrays=digests).write(folder)  # otherwise it would be built again
