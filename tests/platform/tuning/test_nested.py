"""Nested cross-validation from its settings to its report, without Ray; test folds cannot be read before their time."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permlab.datasets.cache import build
from permlab.datasets.folds import read_folds
from permlab.datasets.store import GraphStore
from permlab.platform.errors import ConfigError
from permlab.platform.files.liveness import driving
from permlab.platform.report.blocks import Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.report.protocol import protocol_section
from permlab.platform.report.results import estimates
from permlab.platform.report.significance import FOLDS, luck_section
from permlab.platform.run.cell import run_cell
from permlab.platform.settings.run import RunSettings, cell_key
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.drive import plan_of
from permlab.platform.sweep.folder import close_folder, open_folder
from permlab.platform.sweep.plan import Cell
from permlab.platform.tuning.choice import write_choices
from permlab.platform.tuning.driver import Driver
from permlab.platform.tuning.lease import open_lease
from permlab.platform.tuning.prepare import choose, open_studies, storage_url, tuning_folder
from permlab.platform.tuning.trial_task import TrialJob, run_trial
from tests.platform.tuning.test_driver import Inline

DATA = "synthetic,graphs=60,max_nodes=6,task=classification"
EPOCHS = 3
METHODS = ("sum", "pyg:MeanAggregation")


class Guard:
    """The test fold of the cell at hand cannot be read: batches of it are refused, and its labels are missing."""

    def __init__(self, patch: pytest.MonkeyPatch, folds: str) -> None:
        self.folds, self.test = folds, np.zeros(0, dtype=np.int64)
        self.epochs, self.read_after = 0, list[int]()
        self.open = False
        batch, labels = GraphStore.batch, GraphStore.y.func

        def guarded(store: GraphStore, graphs: np.ndarray, *rest: Any, **options: Any) -> Any:
            if np.isin(graphs, self.test).any():
                if not self.open:
                    raise PermissionError("a test fold was read")
                self.read_after.append(self.epochs)
            return batch(store, graphs, *rest, **options)

        def hidden(store: GraphStore) -> np.ndarray:
            y = labels(store).copy()
            y[self.test if not self.open else []] = np.nan
            return y

        patch.setattr(GraphStore, "batch", guarded)
        patch.setattr(GraphStore, "y", property(hidden))

    def lock(self, settings: RunSettings) -> None:
        self.test, self.open = read_folds(self.folds)[settings.data.fold or 0].test, False

    def run(self, settings: RunSettings) -> dict[str, Any]:
        """A cell whose test fold may be read once all epochs are over."""
        self.lock(settings)
        self.epochs, self.read_after = 0, []

        def after_epoch(history: list[dict[str, float]]) -> None:
            self.epochs = len(history)
            self.open = self.epochs == EPOCHS

        return run_cell(settings, on_epoch=after_epoch)


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("nested-cache")
        patch.setenv("PERMLAB_CACHE", str(folder))
        build(DATA)
        yield folder


@pytest.fixture(autouse=True)
def same_cache(module_cache: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMLAB_CACHE", str(module_cache))


@pytest.fixture
def folds(tmp_path: Path) -> str:
    """Three folds of 20 graphs; the first has two model-selection parts."""
    order = np.random.default_rng(0).permutation(60)
    document = []
    for i in range(3):
        test, rest = order[20 * i : 20 * (i + 1)], np.setdiff1d(order, order[20 * i : 20 * (i + 1)])
        parts = [{"train": rest[k:].tolist(), "validation": rest[:k].tolist()} for k in ((10, 12) if i == 0 else (10,))]
        document.append({"test": test.tolist(), "model_selection": parts})
    path = tmp_path / "folds.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def settings(folds: str, tmp_path: Path) -> SweepSettings:
    words = ["protocol=errica", f"dataset={DATA}", f"data.splits={folds}", "name=nested", f"runs={tmp_path / 'runs'}"]
    words += [
        f"method=[{','.join(METHODS)}]",
        "d=3",
        "seed=[0,1]",
        f"train.epochs={EPOCHS}",
        "train.eval_every=1",
        "track=false",
    ]
    words += ["train.engine=plain", "train.monitor=acc", "tune.trials=2", "tune.seeds=2"]
    return read_settings(SweepSettings, words)


def tune_inline(settings: SweepSettings, runner: Callable[[TrialJob], dict[str, Any]]) -> list[Any]:
    """The chosen settings of every study."""
    assert settings.tune
    tuning_folder(settings).mkdir(parents=True)
    lease = open_lease(storage_url(settings, settings.tune))
    try:
        studies = open_studies(settings, settings.tune, lease)
        Driver(studies, Inline(), runner, settings.name, Path(settings.runs), 0, 1).run(
            lambda progress: None, lambda: 0
        )
        choices = [choose(tuned) for tuned in studies]
    finally:
        lease.close()
    write_choices([choice for choice in choices if choice], tuning_folder(settings))
    return choices


def test_test_folds_are_read_once_with_the_final_weights(
    settings: SweepSettings, folds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = Guard(monkeypatch, folds)
    monkeypatch.setattr("permlab.platform.tuning.trial_task.PATIENCE", 0.0)  # trials run in the driver's own thread
    jobs: list[TrialJob] = []

    def guarded_trial(job: TrialJob) -> dict[str, Any]:
        jobs.append(job)
        guard.lock(job.settings)
        return run_trial(job)

    choices = tune_inline(settings, guarded_trial)
    assert [(choice.method, choice.fold) for choice in choices] == [(m, f) for m in METHODS for f in range(3)]
    assert {choice.metric for choice in choices} == {"acc"}
    assert {job.settings.splits_at_end for job in jobs} == {("train", "validation")}
    assert {tuple(seed % 2 for seed in job.seeds) for job in jobs if job.settings.data.fold == 0} == {(0, 1)}

    final = settings.model_copy(update={"tune": None, "tuned": [settings.name]})
    plan, _ = plan_of(final)
    assert len(plan) == 2 * 3 * 2 and len({cell.key for cell in plan}) == 12
    for cell in plan:
        cell.result = guard.run(cell.settings)
        assert set(cell.result["metrics"]) == {"train", "validation", "holdout", "holdout_perm"}
        assert guard.read_after and set(guard.read_after) == {EPOCHS}
    _report_says_it(final, plan)


def _report_says_it(settings: SweepSettings, plan: list[Cell]) -> None:
    folder = Path(settings.runs) / "sweeps" / settings.name
    with driving(folder):
        open_folder(folder, settings, plan)
        close_folder(folder, "FINISHED")
    stored = read_on_disk(settings.name, Path(settings.runs))
    assert stored and stored.protocol == "errica" and stored.unit(DATA) == "folds"
    findings = Findings(stored)
    section = protocol_section(findings)
    assert section and str(section.blocks[0]).startswith("Nested cross-validation")
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.header[-1] == "folds" and {(row[0], row[-1]) for row in table.rows} == {
        (method, "3") for method in METHODS
    }
    by_fold = [
        np.mean([cell.result["metrics"]["holdout"]["auc"] for cell in plan if _is(cell, fold)])  # type: ignore[index]
        for fold in range(3)
    ]
    number = findings.numbers[(DATA, 3, "holdout", "auc"), "sum"].estimate
    assert (number.mean, number.seeds) == (pytest.approx(np.mean(by_fold)), 3)
    assert estimates(plan)[DATA, 3, "sum", "holdout", "auc"] == number
    assert findings.test_share(DATA) == pytest.approx(20 / 29, abs=0.1)  # folds share training graphs
    assert FOLDS in luck_section(findings).blocks


def _is(cell: Cell, fold: int) -> bool:
    return cell.settings.method == "sum" and cell.settings.data.fold == fold


def test_folds_that_were_tuned_otherwise_are_refused(settings: SweepSettings, folds: str) -> None:
    tune_inline(settings.model_copy(update={"method": ["sum"]}), _cheap)
    final = settings.model_copy(update={"tune": None, "tuned": [settings.name], "method": ["sum"]})
    assert len(plan_of(final)[0]) == 6
    document = json.loads(Path(folds).read_text())
    Path(folds).write_text(json.dumps(document[::-1]))
    with pytest.raises(ConfigError, match="nested/.*/sum/d3/f0 was tuned on another split"):
        plan_of(final)


def _cheap(job: TrialJob) -> dict[str, Any]:
    return {"value": 0.5, "epochs": EPOCHS, "seconds": 0.1}


def test_a_key_depends_on_what_the_file_holds_and_not_on_its_place(folds: str, tmp_path: Path) -> None:
    copy, changed = tmp_path / "copy.json", tmp_path / "changed.json"
    copy.write_bytes(Path(folds).read_bytes())
    changed.write_text(json.dumps(json.loads(copy.read_text())[::-1]))
    keys = [
        cell_key(read_settings(RunSettings, [f"data.splits={path}", "data.fold=1"]), "digest")
        for path in (folds, copy, changed)
    ]
    assert keys[0] == keys[1] != keys[2]


@given(st.permutations(["data.fold=1", "seed=3"]))
def test_folds_are_an_axis_of_the_grid(words: list[str]) -> None:
    sweep = read_settings(SweepSettings, ["data.splits=stratified:4", "seed=[0,1]"])
    assert [cell.name for cell in sweep.cells()] == [f"sum-d10-f{fold}-s{seed}" for fold in range(4) for seed in (0, 1)]
    one = read_settings(SweepSettings, ["data.splits=stratified:4", *words])
    assert [cell.name for cell in one.cells()] == ["sum-d10-f1-s3"]
