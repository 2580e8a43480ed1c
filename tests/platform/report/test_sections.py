"""Every kind of sweep has a report: nothing finished yet, one seed, no holdout, other readouts, missing cells."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from permlab.platform.report.blocks import Figure, Section
from permlab.platform.report.findings import Findings
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.sections import SECTIONS
from permlab.platform.report.stored import StoredSweep
from permlab.platform.report.write import write_report

FACTS = ["key", "name", "status", "run_id", "error", "dataset", "method", "d", "seed"]


def changed(sweep: StoredSweep, cells: pd.DataFrame, histories: pd.DataFrame | None = None) -> StoredSweep:
    return dataclasses.replace(sweep, cells=cells, histories=sweep.histories if histories is None else histories)


def sections(sweep: StoredSweep) -> dict[str, Section]:
    findings = Findings(sweep)
    return {section.name: section for make in SECTIONS if (section := make(findings))}


def text(sweep: StoredSweep) -> str:
    return to_markdown("t", list(sections(sweep).values()))


def test_nothing_has_finished_yet(sweep: StoredSweep, tmp_path: Path) -> None:
    cells = sweep.cells[FACTS].assign(status="WAITING")
    empty = changed(sweep, cells, pd.DataFrame(columns=["key", "epoch"]))
    report = text(empty)
    assert "No cell has finished yet." in report and "0 of 112 cells (112 not started)" in report
    assert "No test is possible" in report and "256 count, and 0 of these" in report
    write_report(empty, tmp_path, lambda done, total: None)
    assert list((tmp_path / "figures").iterdir()) == [] and (tmp_path / "report.html").exists()


def test_one_seed_has_no_interval_and_no_test(sweep: StoredSweep) -> None:
    report = text(changed(sweep, sweep.cells[sweep.cells["seed"] == 0]))
    assert "±" not in report.replace("Mean ± 95 % interval", "").replace("mean ± t·s·√", "")
    assert "No test is possible" in report and "with a single run there is no interval" in report


def test_a_sweep_without_holdout_is_judged_by_its_validation(sweep: StoredSweep) -> None:
    names = {name: name.replace("holdout/", "validation/") for name in sweep.cells if "holdout/" in name}
    cells = sweep.cells.rename(columns=names | {"graphs/holdout": "graphs/validation"})
    cells = cells[[name for name in cells if "holdout_perm" not in name and "certificate" not in name]]
    report = text(changed(sweep, cells, sweep.histories.rename(columns=names)))
    assert "Best: kernels at d = 10, validation AUC" in report and "Permuted nodes:" not in report
    assert "No certificate is stored" in report and "| validation |" in report


def test_the_summary_names_the_methods_that_are_not_invariant(sweep: StoredSweep) -> None:
    report = text(sweep)
    assert "all but identity (error 0.5)" in report and "other graphs in its batch" not in report
    batch_error = {"kernels": 0.25, "sum": 1e-15}
    cells = sweep.cells.assign(**{"certificate/batch_error": sweep.cells["method"].map(batch_error)})
    assert "depends on the other graphs in its batch: kernels (error 0.25)" in text(changed(sweep, cells))


def test_readouts_that_are_not_in_the_paper(sweep: StoredSweep) -> None:
    cells = sweep.cells.replace({"method": {"sort": "alpha0", "augment": "fourier"}})
    by_name = sections(changed(sweep, cells))
    assert by_name["tables"].tables[0].header[-2:] == ["alpha0", "fourier"]
    assert "0 of 48" in [row[1] for row in by_name["scorecard"].tables[0].rows]


def test_a_method_with_too_few_seeds_is_left_out_of_the_tests_only(sweep: StoredSweep) -> None:
    lost = (sweep.cells["method"] == "sum") & (sweep.cells["seed"] > 1)
    findings = Findings(changed(sweep, sweep.cells.assign(status=sweep.cells["status"].mask(lost, "FAILED"))))
    place = ("proteins_full", 10, "holdout", "auc")
    assert findings.numbers[place, "sum"].estimate.seeds == 2
    assert findings.compare(place, "sum", "sort") is None and findings.compare(place, "kernels", "sort") is not None
    assert len(findings.comparisons[place]) == 15  # of six methods


@pytest.mark.parametrize("dataset", ["proteins_full", "qm9"])
def test_best_is_the_largest_auc_and_the_smallest_mae(sweep: StoredSweep, dataset: str) -> None:
    findings = Findings(sweep)
    metric = sweep.headline(dataset)
    best = [
        method
        for (place, method), n in findings.numbers.items()
        if place == (dataset, 10, "holdout", metric) and n.best
    ]
    assert best == {"proteins_full": ["kernels"], "qm9": ["set2set"]}[dataset]


def test_every_figure_has_its_own_name_and_words(sweep: StoredSweep) -> None:
    figures = [block for section in sections(sweep).values() for block in section.blocks if isinstance(block, Figure)]
    assert len({figure.name for figure in figures}) == len(figures) >= 14
    assert all(figure.alt and figure.title and figure.panels for figure in figures)
