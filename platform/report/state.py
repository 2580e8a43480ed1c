"""What the sweep was, and what is missing from it."""

from permlab.platform.report.as_run import as_run
from permlab.platform.report.blocks import Block, Entry, Items, Section, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.numerics import numerics_sentence
from permlab.platform.report.on_disk import UNDELIVERED, undelivered_line
from permlab.platform.report.surroundings import surroundings
from permlab.platform.report.tables import pretty

WORDS = {
    "FINISHED": "finished",
    "RUNNING": "still running",
    "WAITING": "not started",
    "FAILED": "failed",
    "STOPPED": "stopped",
    "KILLED": "stopped",  # in MLflow, and in results of older versions
    UNDELIVERED: "finished on disk only",
}
LISTED = 200  # missing cells that are named, at most


def state_section(findings: Findings) -> Section:
    sweep = findings.sweep
    missing = sweep.cells[sweep.cells["status"] != "FINISHED"]
    total = len(sweep.cells)
    blocks: list[Block] = []
    if len(missing) == 0:
        blocks.append(f"Nothing is missing: all {total:,} cells are finished.")
    else:
        counts = sweep.cells["status"].value_counts()
        parts = ", ".join(f"{counts[state]} {word}" for state, word in WORDS.items() if state in counts)
        blocks.append(
            f"This report is not complete: it has {total - len(missing):,} of {total:,} cells ({parts}). All that "
            f"follows is about the finished ones. Means over fewer {sweep.units} have wider intervals; tests compare "
            f"the {sweep.units} that two methods share."
        )
        if sweep.undelivered:
            blocks.append(undelivered_line(sweep))
        rows: list[list[Entry | str]] = [
            [cell.name, pretty(cell.dataset), WORDS.get(cell.status, cell.status.lower()), cell.error]
            for cell in missing.head(LISTED).drop(columns="name").assign(name=missing["name"]).itertuples(index=False)
        ]
        title = f"Missing: {len(missing)} cells" + (f", the first {LISTED}" if len(missing) > LISTED else "")
        blocks.append(Table(title, ["cell", "data set", "state", "why"], rows, folded=len(missing) > 12))
    if sentence := numerics_sentence(sweep.finished):
        blocks.append(sentence)
    blocks += [as_run(sweep, dataset) for dataset in sweep.datasets if len(sweep.finished_of(dataset))]
    if lines := surroundings(sweep):
        blocks.append(Items(lines, "Where it was run"))
    return Section("state", "What was run", blocks)
