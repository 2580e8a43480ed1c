"""Data sets: build, open, batches and memory, compared with PyG's InMemoryDataset + DataLoader."""

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from permlab.datasets.catalogue import parse_name
from permlab.datasets.sources.tu import TU
from permlab.platform.bench.machine import caption, facts
from permlab.platform.bench.process_memory import peak_of_tree
from permlab.platform.bench.settings import DataBench
from permlab.platform.bench.tables import new_table, print_table, spread
from permlab.platform.bench.worker import Worker
from permlab.platform.display.console import out, progress_bar
from permlab.platform.sweep.plan import manifest_of

CLI = "import sys; from permlab.platform.cli import main; sys.exit(main(sys.argv[1:]))"
MODULES = {"ours": "reading", "plain": "plain_reading"}
MOST_PLAIN = 200_000  # graphs: PyG creates one object per graph


def measure(bench: DataBench) -> dict[str, Any]:
    """Every data set is built from scratch, in a temporary cache."""
    rows = []
    machine = facts(bench.threads)
    with _own_cache() as folder, progress_bar("bench data", "data sets") as report:
        for done, name in enumerate(bench.dataset):
            report(done, len(bench.dataset))
            seconds, peak = peak_of_tree([sys.executable, "-c", CLI, "data", "build", name])
            row = {"dataset": name, "ours_build_seconds": seconds, "ours_build_peak_mb": peak} | _plain_build(
                name, folder
            )
            rows.append(row | _compare(bench, name, str(folder / "plain.pt")))
    return {"bench": "data", "machine": machine, "settings": bench.model_dump(), "rows": rows}


@contextmanager
def _own_cache() -> Iterator[Path]:
    before = os.environ.get("PERMLAB_CACHE")
    with tempfile.TemporaryDirectory(prefix="permlab-bench-") as folder:
        os.environ["PERMLAB_CACHE"] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ["PERMLAB_CACHE"]
            if before is not None:
                os.environ["PERMLAB_CACHE"] = before


def _plain_build(name: str, folder: Path) -> dict[str, float | None]:
    """Build it with PyG's own reader, which exists only for the TU collection."""
    source = parse_name(name).source
    if not isinstance(source, TU):
        return {"plain_build_seconds": None, "plain_build_peak_mb": None}
    command = [sys.executable, "-m", "permlab.platform.bench.plain_build", source.name, str(folder / "plain")]
    seconds, peak = peak_of_tree(command)
    return {"plain_build_seconds": seconds, "plain_build_peak_mb": peak}


def _compare(bench: DataBench, name: str, path: str) -> dict[str, Any]:
    """Memory of several processes that have read everything; then the times of opening and of an epoch, in turn."""
    graphs = manifest_of(name).graphs
    sides = {"ours": name} | ({"plain": path} if graphs <= MOST_PLAIN else {})
    measured: dict[str, Any] = {"graphs": graphs, "memory_mb": {}}
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        first_workers = {}
        for side, source in sides.items():
            workers = [stack.enter_context(Worker(bench.threads)) for _ in range(max(bench.workers))]
            workers[0].call(f"{MODULES[side]}.start", name=name, path=path)
            measured["memory_mb"][side] = _memory(side, source, workers, bench.workers)
            first_workers[side] = workers[0]
        for side, worker in [pair for _ in range(bench.repeats) for pair in first_workers.items()]:
            opened = 1000 * worker.call(f"{MODULES[side]}.open_set", name=sides[side])
            times.setdefault(f"{side}_open", []).append(opened)
            batch = 1000 * worker.call(f"{MODULES[side]}.epoch", batch_size=bench.batch_size)
            times.setdefault(f"{side}_batch", []).append(batch)
    for label, values in times.items():
        measured[f"{label}_ms"], measured[f"{label}_range"] = statistics.median(values), spread(values)
    for step in ("open", "batch"):
        plain_ms = measured.get(f"plain_{step}_ms")
        measured[f"{step}_ratio"] = plain_ms / measured[f"ours_{step}_ms"] if plain_ms else None
    return measured


def _memory(side: str, source: str, workers: list[Worker], counts: list[int]) -> dict[str, float]:
    """{number of processes: MB that they take together for the data set, shared pages counted once}."""

    def total() -> float:
        return sum([worker.call("process_memory.own") for worker in workers])

    for worker in workers[1:]:
        worker.call(f"{MODULES[side]}.start")
    before, by_count = total(), {}
    for count, worker in enumerate(workers, start=1):
        worker.call(f"{MODULES[side]}.open_set", name=source)
        worker.call(f"{MODULES[side]}.read")
        if count in counts:
            by_count[str(count)] = total() - before
    return by_count


def show(result: dict[str, Any]) -> None:
    settings, machine = result["settings"], result["machine"]
    columns = ("graphs", "build, s", "PyG", "peak, MB", "PyG", "open, ms", "PyG", "batch, ms", "PyG", "ratio")
    table = new_table(("data set",), columns)
    memory = new_table(("data set", "total MB"), [f"{n} worker{'s' * (n > 1)}" for n in settings["workers"]])
    for row in result["rows"]:
        forms = {"build_seconds": "{:.1f}", "build_peak_mb": "{:,.0f}", "open_ms": "{:.2f}", "batch_ms": "{:.2f}"}
        cells = [
            "–" if row.get(side + quantity) is None else form.format(row[side + quantity])
            for quantity, form in forms.items()
            for side in ("ours_", "plain_")
        ]
        ratio = f"{row['batch_ratio']:.1f}×" if row["batch_ratio"] else "–"
        table.add_row(row["dataset"], f"{row['graphs']:,}", *cells, ratio)
        for side, label in (("ours", "ours"), ("plain", "PyG")):
            if side in row["memory_mb"]:
                memory.add_row(
                    row["dataset"], label, *(f"{row['memory_mb'][side][str(n)]:,.0f}" for n in settings["workers"])
                )
    print_table(table)
    out.print(
        f"Medians of {settings['repeats']} measurements in turn, batch {settings['batch_size']}; build on all cores. "
        f"{caption(machine)}; load {machine['load']} at the start.\nPyG: an InMemoryDataset of the same training "
        f"graphs in one file, and DataLoader; left out above {MOST_PLAIN:,} graphs.\n",
        markup=False,
    )
    print_table(memory)
    out.print("Memory for the data set, summed over all processes (PSS), after reading every byte.")
