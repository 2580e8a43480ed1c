"""Time and memory of building, opening and reading data sets."""

import os
import sys
import tempfile
from typing import Any

from rich.table import Table

from permlab.platform.bench.memory import peak_of_tree, readers
from permlab.platform.bench.settings import DataBench
from permlab.platform.console import err, out

READERS = 4
CLI = "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"


def measure(bench: DataBench) -> dict[str, Any]:
    """Build each data set from nothing in a cache of its own, then let four processes read all of it."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as cache:
        os.environ["PERMLAB_CACHE"] = cache
        for name in bench.dataset:
            err.print(f"building {name} …")
            seconds, peak = peak_of_tree([sys.executable, "-c", CLI, "data", "build", name])
            found = readers(name, READERS)
            rows.append(
                {
                    "data": name,
                    "build_seconds": seconds,
                    "build_peak_mb": peak,
                    "open_ms": max(opened for opened, _ in found) * 1000,
                    "private_mb_a_reader": max(private for _, private in found),
                }
            )
    return {"bench": "data", "readers": READERS, "rows": rows}


def show(result: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("data set")
    for label in ("build, s", "peak, MB", "open, ms", f"private MB each of {result['readers']}"):
        table.add_column(label, justify="right")
    for row in result["rows"]:
        table.add_row(
            row["data"],
            f"{row['build_seconds']:.1f}",
            f"{row['build_peak_mb']:,.0f}",
            f"{row['open_ms']:.1f}",
            f"{row['private_mb_a_reader']:.1f}",
        )
    out.print(table)
