"""What tuning gave: how studies went, what mattered, and whether the chosen settings beat the default ones."""

import math
from dataclasses import dataclass
from typing import Any

from permlab.platform.report.blocks import Block, Entry, Figure, Panel, Section, Series, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.results import Estimate
from permlab.platform.report.statistics import ALPHA, LEAST_SEEDS, PairedTest, holm, paired_test
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.report.surroundings import command
from permlab.platform.report.tables import pretty, signed
from permlab.platform.tuning.choice import baseline_name, best_of
from permlab.tasks.metrics import higher_is_better, metric_label

HOW = (
    "Each (data set, method, d) was tuned separately on validation parts cut from the training data; the holdout was "
    "not read. Trial 0 is the default settings. A trial's value is the mean over its seeds of the last evaluation, not "
    "of the best. The best of many noisy trials looks better than it is: the gain on validation is optimistic, the "
    "holdout decides."
)
ONE_SPLIT = (
    "All seeds of the sweep hold out the same graphs, those that the trials never saw, so intervals show the luck of "
    "weights and order, not of the split."
)
FOLDS = "Every fold was tuned by itself: its trials never saw the graphs that it holds out."
NOT_BY_FOLD = "What tuning gained on the holdout is not told for folds, each of which has settings of its own."
NOT_COMPARED = ("method", "d", "seed", "experiment", "runs", "track", "accelerator", "threads", "train.engine")
BEST_DRAWN = 3  # trials drawn with markers in the parallel coordinates


@dataclass(frozen=True)
class Gain:
    """Tuned against default settings at one d, over the seeds that both have."""

    dataset: str
    d: int
    method: str
    split: str
    metric: str
    default: Estimate
    tuned: Estimate
    difference: Estimate
    verdict: str

    @property
    def told(self) -> str:
        """`+0.012 ± 0.010, better`"""
        half = f" ± {self.difference.half_width:.3f}" if self.difference.half_width is not None else ""
        return f"{signed(self.difference.mean)}{half}, {self.verdict}"


def tuning_section(findings: Findings) -> Section | None:
    tuning = findings.sweep.tuning
    if tuning is None:
        return None
    by_fold = findings.sweep.units != "seeds"
    blocks: list[Block] = [f"{HOW} {FOLDS if by_fold else ONE_SPLIT}"]
    if tuning.studies:
        blocks.append(_validation(tuning.studies))
    gains = gains_on_holdout(findings.sweep)
    blocks.append(_holdout(gains) if gains else NOT_BY_FOLD if by_fold else _no_default(findings.sweep))
    blocks.append(_chosen(tuning.chosen))
    if tuning.studies:
        blocks += [_history(tuning.studies), _importances(tuning.studies)]
        blocks += _coordinates(tuning.studies)
    return Section("tuning", "What did tuning find?", blocks)


def where(study: dict[str, Any]) -> str:
    fold = "" if study.get("fold") is None else f", fold {study['fold']}"
    return f"{pretty(study['dataset'])}, d = {study['d']}{fold}"


def _validation(studies: list[dict[str, Any]]) -> Table:
    rows: list[list[Entry | str]] = []
    for study in studies:
        best = best_of(study)
        default = next((row["value"] for row in study["trials"] if row["number"] == 0), None)
        rows.append(
            [
                study["method"],
                where(study),
                str(study["finished"]),
                str(study["pruned"]),
                f"{study['epochs_saved']:.0%}",
                metric_label(study["metric"]),
                f"{default:.4f}" if default is not None else "–",
                f"{best['value']:.4f} (trial {best['number']})" if best else "–",
            ]
        )
    header = ["method", "study", "trials", "pruned", "epochs saved", "metric", "default", "best"]
    return Table("Best against default, validation", header, rows)


def _holdout(gains: list[Gain]) -> Table:
    rows: list[list[Entry | str]] = [
        [
            gain.method,
            f"{pretty(gain.dataset)}, d = {gain.d}",
            f"{SPLITS[gain.split]} {metric_label(gain.metric)}",
            str(gain.tuned.seeds),
            str(gain.default),
            str(gain.tuned),
            Entry(gain.told.removesuffix(f", {gain.verdict}"), note=gain.verdict),
        ]
        for gain in gains
    ]
    header = ["method", "cells", "measured", "seeds", "default", "tuned", "tuned − default"]
    title = "Tuned against default (mean ± 95 % interval over seeds; verdicts after Holm's correction)"
    return Table(title, header, rows)


def _no_default(tuned: StoredSweep) -> str:
    """What to run, so that the report can show the gain."""
    split = next(iter(tuned.tuning.chosen), {}).get("split_seed", 0) if tuned.tuning else 0
    params = tuned.params | {"name": baseline_name(tuned.name), "tuned": "[]", "data.split_seed": str(split)}
    return (
        "What tuning gained on the holdout is not known: the default settings were not run on the same split. "
        f"This runs them; then write the report again: {command(params)}"
    )


def gains_on_holdout(tuned: StoredSweep) -> list[Gain]:
    """By the headline metric. Empty if the sweep was not tuned, or the defaults were not measured on the same split."""
    default = tuned.tuning.default if tuned.tuning else None
    return [gain for dataset in tuned.datasets for gain in _gains(tuned, default, dataset)] if default else []


def _gains(tuned: StoredSweep, default: StoredSweep, dataset: str) -> list[Gain]:
    """Both sweeps hold out the same graphs in all seeds, so the test is the paired t-test."""
    split, metric = "holdout", tuned.headline(dataset) or ""
    if tuned.unit(dataset) == "folds" or not _comparable(tuned, default, dataset):
        return []
    pairs: list[tuple[int, str, list[float], list[float]]] = []
    for d in tuned.widths(dataset):
        for method in tuned.methods:
            new, old = (_by_seed(sweep, dataset, d, method, split, metric) for sweep in (tuned, default))
            seeds = sorted(set(new) & set(old))
            if seeds:
                pairs.append((d, method, [new[seed] for seed in seeds], [old[seed] for seed in seeds]))
    chosen = tuned.tuning.chosen if tuned.tuning else []
    kept = {
        (choice["method"], choice["d"]) for choice in chosen if choice["dataset"] == dataset and choice["trial"] == 0
    }
    tests = [None if (name, d) in kept else paired_test(ours, theirs, 0.0) for d, name, ours, theirs in pairs]
    corrected = iter(holm([test.p for test in tests if test]))
    gains = []
    for (d, method, ours, theirs), test in zip(pairs, tests, strict=True):
        verdict = _verdict(test, next(corrected), metric) if test else f"fewer than {LEAST_SEEDS} seeds"
        if (method, d) in kept:
            verdict = "the default settings were chosen"
        difference = Estimate.of([a - b for a, b in zip(ours, theirs, strict=True)])
        estimates = (Estimate.of(theirs), Estimate.of(ours), difference)
        gains.append(Gain(dataset, d, method, split, metric, *estimates, verdict))
    return gains


def _comparable(tuned: StoredSweep, default: StoredSweep, dataset: str) -> bool:
    """Whether both hold out the same graphs, and differ in nothing but what was tuned."""
    ours, theirs = tuned.settings(dataset), default.settings(dataset)
    fields = [field for choice in (tuned.tuning.chosen if tuned.tuning else []) for field in choice["settings"]]
    free = {*fields, *(field.partition(".")[0] for field in fields), *NOT_COMPARED}
    same = all(set(ours[name]) == set(theirs.get(name, ())) for name in ours if name not in free)
    return same and set(ours.get("data.split_seed", ["None"])) != {"None"}


def _by_seed(sweep: StoredSweep, dataset: str, d: int, method: str, split: str, metric: str) -> dict[int, float]:
    values = sweep.values
    part = values[
        (values["dataset"] == dataset)
        & (values["d"] == d)
        & (values["method"] == method)
        & (values["split"] == split)
        & (values["metric"] == metric)
    ]
    return {int(seed): float(value) for seed, value in zip(part["seed"], part["value"], strict=True)}


def _verdict(test: PairedTest, p: float, metric: str) -> str:
    if p >= ALPHA:
        return "not significant"
    return "better" if (test.difference > 0) == (higher_is_better(metric)) else "worse"


def _chosen(chosen: list[dict[str, Any]]) -> Table:
    fields = list(dict.fromkeys(field for choice in chosen for field in choice["settings"]))
    rows: list[list[Entry | str]] = [
        [choice["method"], where(choice), *(_short(choice["settings"].get(field, "default")) for field in fields)]
        for choice in chosen
    ]
    return Table("Chosen settings", ["method", "study", *fields], rows)


def _history(studies: list[dict[str, Any]]) -> Figure:
    """Every trial, and the best so far; pruned ones at their last value, hollow."""
    panels, spoken = [], []
    for place in dict.fromkeys(where(study) for study in studies):
        series: list[Series] = []
        here = [study for study in studies if where(study) == place]
        for study in here:
            done = [row for row in study["trials"] if row["value"] is not None]
            cut = [row for row in study["trials"] if row["state"] == "PRUNED" and row["steps"]]
            better = max if study["maximise"] else min
            best = [better(row["value"] for row in done[: i + 1]) for i in range(len(done))]
            numbers = [float(row["number"]) for row in done]
            method = study["method"]
            series.append(Series(method, numbers, [row["value"] for row in done], line=False))
            series.append(Series(method, numbers, best, markers=False))
            last = [row["steps"][max(row["steps"], key=int)] for row in cut]
            series.append(Series(method, [float(row["number"]) for row in cut], last, line=False, hollow=True))
            if best:
                spoken.append(f"{method}, {place}: from {done[0]['value']:.3f} to {best[-1]:.3f}")
        metric = metric_label(here[0]["metric"])
        trials = sorted({number for line in series for number in line.x})
        panels.append(Panel(place, "trial", f"validation {metric}", series, x_ticks=trials))
    title = "History of the studies"
    caption = "Points: finished trials; hollow: pruned ones, at their last value; lines: the best so far."
    return Figure("tuning-history", title, f"{title}. {'; '.join(spoken)}.", panels, min(len(panels), 2), caption)


def _importances(studies: list[dict[str, Any]]) -> Table:
    fields = list(dict.fromkeys(field for study in studies for field in study["importances"]))
    rows: list[list[Entry | str]] = [
        [
            study["method"],
            where(study),
            *(f"{study['importances'][field]:.0%}" if field in study["importances"] else "–" for field in fields),
        ]
        for study in studies
    ]
    title = "What mattered: share of each setting in what good trials have in common (PED-ANOVA; few trials, so rough)"
    return Table(title, ["method", "study", *fields], rows)


def _coordinates(studies: list[dict[str, Any]]) -> list[Figure]:
    """One line per finished trial over its settings, each scaled from lowest to highest, and its value."""
    panels, axes = [], {}
    for study in studies:
        whole = [row for row in study["trials"] if len(row["values"]) == len(study["space"])]
        done = [row for row in whole if row["value"] is not None]
        done.sort(key=lambda row: row["value"], reverse=study["maximise"])
        values = [row["value"] for row in done]
        series = []
        for place, row in enumerate(done):
            heights = [_height(spec, row["values"][field]) for field, spec in study["space"].items()]
            heights.append(_share(row["value"], min(values), max(values)))
            labels = [f"{field} = {_short(row['values'][field])}" for field in study["space"]]
            labels.append(f"trial {row['number']}: {row['value']:.4f}")
            xs = [float(i + 1) for i in range(len(heights))]
            series.append(Series(study["method"], xs, heights, labels=labels, markers=place < BEST_DRAWN))
        if series:
            names = [*study["space"], metric_label(study["metric"])]
            axes[study["method"]] = ", ".join(f"{i + 1} {name}" for i, name in enumerate(names))
            ticks = [float(i + 1) for i in range(len(names))]
            title = f"{study['method']}, {where(study)}"
            panels.append(Panel(title, "axis", "lowest to highest", series, x_ticks=ticks))
    if not panels:
        return []
    title = "Parallel coordinates"
    alt = f"{title}: one line per finished trial; the tables above give the chosen settings and their values."
    named = [f"{', '.join(m for m in axes if axes[m] == text)}: {text}" for text in dict.fromkeys(axes.values())]
    caption = (
        f"One line per finished trial; the best {BEST_DRAWN} with markers. Logarithmic where the search is. "
        f"Axes of {'; '.join(named)}."
    )
    return [Figure("tuning-coordinates", title, alt, panels, min(len(panels), 2), caption)]


def _height(spec: dict[str, Any], value: Any) -> float:
    """0 at the lower end of the range, 1 at the upper."""
    if "choices" in spec:
        return _share(float(spec["choices"].index(value)), 0.0, float(max(len(spec["choices"]) - 1, 1)))
    ends = (value, spec["low"], spec["high"])
    return _share(*(math.log(end) for end in ends)) if spec.get("log") else _share(*ends)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
