"""The cells of a training benchmark."""

from itertools import product
from typing import Any

from permlab.platform.bench.settings import CellsBench
from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.sweep.plan import manifest_of


def cells_of(bench: CellsBench, folder: str) -> list[dict[str, Any]]:
    """Run settings of every cell, with `folder` as runs folder; missing data sets are built first."""
    for dataset in bench.dataset:
        build_if_missing(dataset)
    manifests = {dataset: manifest_of(dataset) for dataset in bench.dataset}
    return [
        bench.cell(dataset, method, d, manifests[dataset], folder)
        for dataset, method, d in product(bench.dataset, bench.method, bench.d)
    ]


def name_of(cell: dict[str, Any]) -> dict[str, Any]:
    """The columns that every row of results starts with."""
    return {key: cell[key] for key in ("dataset", "method", "d")}


def title_of(row: dict[str, Any]) -> str:
    return f"{row['dataset']} {row['method']} d={row['d']}"
