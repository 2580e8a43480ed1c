"""The rows of a source that give no graph: counted by reason, and listed in a file of the data set."""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

LIST = "left_out.csv"
COLUMNS = ("row", "smiles", "reason")  # rows are numbered from 1, the header not counted


class LeftOut:
    """It fills while chunks are read. Rows go straight to the file, so that memory does not grow with them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LIST
        self.reasons: Counter[str] = Counter()

    def add(self, rows: Sequence[tuple[int, str, str]]) -> None:
        """Each row as in COLUMNS."""
        if not rows:
            return
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if not self.reasons:
                writer.writerow(COLUMNS)
            writer.writerows(rows)
        self.reasons.update(reason for *_, reason in rows)
