"""A tuning, as a Python caller sees it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from permlab.platform.files.json_files import read_json
from permlab.platform.tuning.choice import STUDIES, Choice, read_choices


@dataclass(frozen=True)
class Tuning:
    """The studies of a tuning, one per (dataset, method, d)."""

    name: str
    studies: list[dict[str, Any]] = field(repr=False)  # the documents of studies.json
    best: list[Choice]  # of each study

    def frame(self) -> pd.DataFrame:
        """One row per trial: its study, number, state, value on validation, cost, and the settings it tried."""
        facts = ("study", "dataset", "method", "d", "metric")
        costs = ("number", "state", "value", "epochs", "seconds")
        return pd.DataFrame(
            [
                {name: study[name] for name in facts} | {name: trial[name] for name in costs} | trial["values"]
                for study in self.studies
                for trial in study["trials"]
            ]
        )


def read_tuning(name: str, runs: Path) -> Tuning:
    """A finished tuning."""
    best = list(read_choices([name], runs).values())
    document = read_json(runs / "tunings" / name / STUDIES) or {"studies": []}
    return Tuning(name, document["studies"], best)
