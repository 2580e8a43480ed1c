"""Which compared cells differ in numerics: these agree up to rounding at best, not bit for bit."""

import json
from collections import defaultdict

import pandas as pd

from permlab.platform.report.tables import pretty

NAMED = 3  # cells named per kind


def numerics_sentence(cells: pd.DataFrame) -> str:
    """Empty if all cells of each data set have the same numerics; versions before 7 did not record them."""
    if "numerics" not in cells:
        return ""
    parts = [text for dataset, part in cells.groupby("dataset") if (text := _differences(str(dataset), part))]
    return f"Compared cells differ in numerics, so they agree to rounding at best. {' '.join(parts)}" if parts else ""


def _differences(dataset: str, cells: pd.DataFrame) -> str:
    """`QM9: engine plain in 2 cells (sum-d10-s0, …); engine fast in 12 cells (…).`"""
    names = defaultdict(list)  # grouped by all numerics of a cell: several, if it was resumed under others
    for name, numerics in zip(cells["name"], cells["numerics"], strict=True):
        if numerics:
            names[numerics].append(name)
    kinds = {text: json.loads(text) for text in names}
    every = [numerics for kind in kinds.values() for numerics in kind]
    differing = [field for field in (every[0] if every else {}) if len({str(each.get(field)) for each in every}) > 1]
    if not differing:
        return ""
    told = []
    for text, kind in kinds.items():
        how = ", then ".join(" ".join(f"{field} {each.get(field)}" for field in differing) for each in kind)
        some = ", ".join(names[text][:NAMED]) + (", …" if len(names[text]) > NAMED else "")
        told.append(f"{how} in {len(names[text])} cell{'s' * (len(names[text]) > 1)} ({some})")
    return f"{pretty(dataset)}: {'; '.join(told)}."
