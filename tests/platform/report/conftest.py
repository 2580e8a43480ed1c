"""Sweeps for the report: some delivered to a real MLflow store, one built as if it was read from a store."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from permlab.platform.report.stored import StoredSweep
from permlab.readouts.names import PAPER_METHODS
from tests.platform.report.making import SETTINGS, cell_metrics, make_sweep


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A runs folder whose store has three sweeps: `whole`, `partial` (under way), `pair` (two seeds, two engines)."""
    folder = tmp_path_factory.mktemp("report") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        make_sweep(folder, "whole")
        missing = {"failed": ["sum-d10-s0"], "waiting": ["sum-d10-s2", "identity-d10-s1"]}
        make_sweep(folder, "partial", widths=[10], seeds=range(3), status=None, **missing)
        engines = {"ordering": "fast", "sum": "plain"}
        make_sweep(folder, "pair", methods=["ordering", "sum"], widths=[10], seeds=range(2), engines=engines)
        yield folder


@pytest.fixture(scope="session")
def sweep() -> StoredSweep:
    """All seven methods of the paper on both of its data sets, as if read from a store."""
    rows, histories = [], []
    for dataset, method, d, seed in product(("proteins_full", "qm9"), PAPER_METHODS, (1, 10), range(4)):
        facts = {"dataset": dataset, "method": method, "d": d, "seed": seed}
        key, renamed = "-".join(map(str, facts.values())), {"auc": "mae"} if dataset == "qm9" else {}
        for epoch in (1, 5, 10):
            measured = {
                f"{name.split('/')[0]}/{renamed.get(name.split('/')[1], name.split('/')[1])}": value
                for name, value in cell_metrics(method, d, seed, epoch).items()
                if not renamed or name.endswith(("loss", "auc"))
            }
            histories.append({"key": key, "epoch": epoch} | measured)
        outcome = {"cost/seconds": 10.0 + d, "cost/parameters": 1000.0 * d, "graphs/train": 913, "graphs/holdout": 200}
        error = {"identity": 0.5, "ordering": 0.0}.get(method, 1e-7)
        ratios = {f"certificate/ratio_{name}": value for name, value in (("min", 0.5), ("median", 1.0), ("max", 2.0))}
        row = {"key": key, "name": f"{method}-d{d}-s{seed}", "status": "FINISHED", "run_id": "", "error": ""}
        row |= {"params": SETTINGS, "max_nodes": 29}
        rows.append(row | facts | measured | outcome | ratios | {"certificate/invariance_error": error})
    return StoredSweep("made", "FINISHED", "sqlite:///x", "", pd.DataFrame(rows), pd.DataFrame(histories))
