"""`permlab report`: from a real store to files, and back into the store."""

import json
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.report.findings import Findings
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.report.speed import speed_section
from permlab.platform.report.state import state_section
from permlab.platform.report.stored import StoredSweep
from permlab.platform.tracking.read import read_sweep
from permlab.platform.tracking.store import connect
from tests.platform.report.making import make_sweep, write_cell

ENDINGS = (".png", ".svg", ".csv", ".py")


@pytest.fixture(scope="session")
def whole(runs: Path) -> StoredSweep:
    return read_sweep("whole", runs)


def test_a_sweep_is_read_as_it_was_stored(whole: StoredSweep, runs: Path) -> None:
    assert (len(whole.cells), len(whole.finished), whole.status) == (18, 18, "FINISHED")
    assert whole.methods == ["ordering", "identity", "sum"] and whole.widths("proteins_full") == [1, 10]
    assert whole.metrics("proteins_full") == ["acc", "auc", "ap", "loss"]
    key = "whole-sum-d10-s2"
    last = json.loads((runs / "cells" / key / "history.jsonl").read_text().splitlines()[-1])
    row = whole.cells.set_index("key").loc[key]
    assert row["holdout/auc"] == pytest.approx(last["holdout/auc"]) and row["cost/seconds"] == 20.0
    on_disk = read_on_disk("whole", runs)
    assert on_disk is not None
    assert whole.cells["max_nodes"].tolist() == on_disk.cells["max_nodes"].tolist() == [620] * 18
    curve = whole.histories[whole.histories["key"] == key]
    assert curve["epoch"].tolist() == [1, 5, 10, 15, 20]
    assert curve["holdout/auc"].iloc[-1] == pytest.approx(last["holdout/auc"])


def test_the_report_says_where_compared_cells_differ_in_numerics(whole: StoredSweep, runs: Path) -> None:
    blocks = [str(block) for block in state_section(Findings(read_sweep("pair", runs))).blocks]
    (sentence,) = [block for block in blocks if "differ in numerics" in block]
    assert "engine fast in 2 cells (ordering-d10-s0, ordering-d10-s1)" in sentence
    assert "engine plain in 2 cells" in sentence and "threads" not in sentence
    assert not any("differ in numerics" in str(block) for block in state_section(Findings(whole)).blocks)


def test_estimates_tests_and_the_papers_numbers_meet(whole: StoredSweep) -> None:
    findings = Findings(whole)
    place = ("proteins_full", 10, "holdout", "auc")
    values = whole.cells[(whole.cells["method"] == "sum") & (whole.cells["d"] == 10)]["holdout/auc"]
    number = findings.numbers[place, "sum"]
    assert number.estimate.mean == pytest.approx(values.mean()) and number.estimate.seeds == 3
    assert number.best and number.paper == 0.821 and number.inside is not None
    assert findings.test_share("proteins_full") == pytest.approx(200 / 913)
    test = findings.compare(place, "sum", "identity")
    assert test is not None and test.p_holm >= test.test.p and test.test.seeds == 3
    assert not findings.numbers[place, "identity"].tied and test.p_holm < 0.05  # 0.07 apart, seeds 0.004
    ranks = findings.ranks("holdout_perm")
    assert dict(zip(ranks.methods, ranks.mean_ranks, strict=True))["identity"] == 3.0


def test_all_files_are_written_and_kept_with_the_sweep(runs: Path, permlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    code, out, err = permlab("report", "whole", "--runs", str(runs), "--out", str(tmp_path / "out"), "--json")
    assert code == 0, err
    assert json.loads(out).pop("report") == str(tmp_path / "out" / "report.html")
    assert {"cells": 18, "finished": 18, "undelivered": 0}.items() <= json.loads(out).items()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    files = {"report.html", "report.md", "tables.tex", "tables.csv", "tables.parquet", "tests.csv", "figures"}
    assert names == files
    pictures = sorted(path.name for path in (tmp_path / "out" / "figures").iterdir())
    kinds = ("certificates", "cost", "ranks-holdout", "epochs", "gap", "width")
    assert all(any(name.startswith(kind) for name in pictures) for kind in kinds)
    stems = {ending: [name.removesuffix(ending) for name in pictures if name.endswith(ending)] for ending in ENDINGS}
    assert stems[".png"] == stems[".svg"] == stems[".csv"] == stems[".py"]
    numbers = pd.read_csv(tmp_path / "out" / "tables.csv")
    assert len(numbers) == 3 * 2 * 3 * 4 and numbers.equals(
        numbers.astype(pd.read_parquet(tmp_path / "out" / "tables.parquet").dtypes)
    )
    client = connect(runs)
    kept = {item.path for item in client.list_artifacts(read_sweep("whole", runs).run_id, "report")}
    assert kept == {f"report/{name}" for name in files}


def test_an_unfinished_sweep_says_what_is_missing(runs: Path, permlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    code, out, err = permlab("report", "partial", "--runs", str(runs), "--out", str(tmp_path))
    assert code == 0 and "6 of 9 cells" in out, err
    text = (tmp_path / "report.md").read_text()
    assert "6 of 9 cells (6 finished, 2 not started, 1 failed)" in text
    for cell in ("sum-d10-s0", "sum-d10-s2", "identity-d10-s1"):
        assert f"| {cell} |" in text
    page = (tmp_path / "report.html").read_text()
    assert "the loss is nan &lt;in&gt; epoch 7" in page
    assert "over epochs" in text, "finished cells have curves although the sweep has not ended"


def test_the_report_counts_against_the_plan_on_disk(permlab, monkeypatch, tmp_path: Path) -> None:
    """A sweep grew while the store could not be written: two cells more in the plan, one of them finished on disk."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    runs = tmp_path / "runs"
    make_sweep(runs, "grown", methods=["sum", "sort"], widths=[10], seeds=[0])
    plan = read_json(runs / "sweeps" / "grown" / "plan.json")
    more = [cell | {"key": f"{cell['key']}-more", "name": f"{cell['name']}-more", "seed": 1} for cell in plan["cells"]]
    write_json(runs / "sweeps" / "grown" / "plan.json", {"cells": plan["cells"] + more})
    facts = {name: more[0][name] for name in ("dataset", "method", "d", "seed")}
    write_cell(runs / "cells" / more[0]["key"], more[0]["name"], facts, [1, 5])
    code, out, err = permlab("report", "grown", "--runs", str(runs))
    assert code == 0 and "2 of 4 cells" in out
    assert "2 of the 3 cells" in err and "permlab deliver" in err and err.count("\n") == 1
    page = (runs / "sweeps" / "grown" / "report" / "report.html").read_text()
    assert err.strip().removeprefix("note: ") in page and "2 of 4 cells finished" in page
    assert "2 of 4 cells (2 finished, 1 not started, 1 finished on disk only)" in page


def test_a_sweep_that_is_only_on_disk_is_reported_from_disk(permlab, monkeypatch, tmp_path: Path) -> None:
    """The same numbers as read from MLflow; the page of an unfinished sweep says what is missing."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    make_sweep(tmp_path, "kept", waiting=["sum-d10-s2"], failed=["sum-d10-s1"])
    tracked, kept = read_sweep("kept", tmp_path), read_on_disk("kept", tmp_path)
    facts = ["key", "status", "error", "holdout/auc", "cost/seconds", "certificate/ratio_min", "graphs/train"]
    pd.testing.assert_frame_equal(kept.cells[facts], tracked.cells[facts], check_dtype=False)
    assert kept.settings("proteins_full") == tracked.settings("proteins_full")
    order = ["key", "epoch"]
    ours, theirs = (sweep.histories.sort_values(order).reset_index(drop=True) for sweep in (kept, tracked))
    pd.testing.assert_frame_equal(ours, theirs[ours.columns], check_dtype=False, check_categorical=False)
    (tmp_path / "mlflow.db").unlink()
    code, out, err = permlab("report", "kept", "--runs", str(tmp_path))
    assert code == 0 and "16 of 18 cells, read from the runs folder" in out, err
    assert not (tmp_path / "mlflow.db").exists()
    page = (tmp_path / "sweeps" / "kept" / "report" / "report.html").read_text()
    assert "read from the runs folder" in page and "1 not started, 1 failed" in page


def test_two_seeds_give_no_test(runs: Path, permlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert permlab("report", "pair", "--runs", str(runs), "--out", str(tmp_path))[0] == 0
    text = (tmp_path / "report.md").read_text()
    assert "No test is possible" in text
    assert "p = " not in text and (tmp_path / "tests.csv").read_text().strip() == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope"], "there is no sweep 'nope' in sqlite"),
        (["nope", "--runs", "elsewhere"], "nothing is tracked in elsewhere"),
        (["whole", "--out", "/proc/nothing"], "/proc/nothing cannot hold a report"),
    ],
)
def test_a_wrong_call_is_one_line(runs: Path, permlab, monkeypatch, words: list[str], says: str) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    words = words if "--runs" in words else [*words, "--runs", str(runs)]
    code, out, err = permlab("report", *words)
    assert code == 2 and out == "" and says in err and err.count("\n") == 1
    if "sqlite" in says:
        assert "choose from: pair, partial, whole" in err


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "postgresql://127.0.0.1:9/mlflow"])
def test_a_store_that_is_down_is_one_line(permlab, monkeypatch, uri: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("permlab.platform.tracking.store.DATABASE_TRIES", 1)
    code, out, err = permlab("report", "whole")
    assert code == 1 and out == "" and f"{uri} cannot be reached" in err and err.count("\n") == 1


def test_the_speed_is_shown_where_it_was_measured(
    whole: StoredSweep, runs: Path, permlab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert speed_section(Findings(whole)) is None
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    rows = [
        {"dataset": "proteins_full", "method": method, "d": d, "ours_ms": 2.0, "plain_ms": 2.0 * d, "ratio": float(d)}
        | {"ratio_range": [0.9 * d, 1.2 * d], "gemm_share": 0.25, "copy_share": 0.12}
        for method, d in product(["ordering", "sum"], [10, 1])
    ]
    machine = {"cpu": "A <fast> CPU", "threads": 1, "date": "2026-11-16T12:00:00", "load": 0.1}
    machine |= {"gemm_gflops": 90.0, "copy_gb_s": 20.0}
    settings = {"batch_size": 128, "repeats": 3}
    stored = runs / "bench" / "train.json"
    stored.parent.mkdir()
    try:
        write_json(stored, {"bench": "train", "machine": machine, "settings": settings, "rows": rows})
        assert permlab("report", "pair", "--runs", str(runs), "--out", str(tmp_path))[0] == 0
    finally:
        stored.unlink()
        stored.parent.rmdir()
    page = (tmp_path / "report.html").read_text()
    assert "A &lt;fast&gt; CPU, 1 core, 2026-11-16" in page
    assert "sum on proteins_full at d = 10: 10.0×" in page
    assert "| sum | 10 | 2.0 | 20.0 | 10.0× | 25% | 12% |" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "figures" / "speed.png").exists()


def test_a_server_that_is_away_costs_only_the_copy(runs: Path, permlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    code, _, err = permlab("report", "pair", "--runs", str(runs), "--out", str(tmp_path))
    assert code == 0 and (tmp_path / "report.html").exists()
    assert "not in MLflow" in err and "Traceback" not in err
