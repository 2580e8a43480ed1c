"""docs/reproduction.md from the stored cells and facts alone: written again it is the same, which a test checks."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa

from permlab.platform.display.palette import styles_of
from permlab.platform.errors import ConfigError, DamagedFile
from permlab.platform.files.json_files import load_json, write_json
from permlab.platform.files.whole_file import whole_file
from permlab.platform.report.as_run import as_run
from permlab.platform.report.blocks import Block, Entry, Figure, Items, Panel, Section, Series, Table, methods_in
from permlab.platform.report.findings import Findings, Number
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.picture import draw
from permlab.platform.report.recipe import comparable, differences
from permlab.platform.report.results import Kind, paper_numbers
from permlab.platform.report.scorecard import HOW, SOURCE, repeated
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.report.tables import pretty, signed
from permlab.platform.reproduce.claims import CLAIMS, Means
from permlab.platform.reproduce.collect import DEFAULTS, OURS, join_cells
from permlab.platform.reproduce.cost import by_method_and_d, cost_section
from permlab.platform.reproduce.search_section import search_section
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.metrics import headline_of, metric_label

CELLS_FILE, FACTS_FILE = "reproduction-cells.parquet", "reproduction.json"
EXPLANATION, PAGE = "reproduction-explanation.md", "reproduction.md"
INTRODUCTION = (
    "Does PermLab get the paper's numbers? Each of the 336 in its 16 tables is beside ours, for the default recipe "
    "and, where it was run, for the one that permlab reproduce fitted to the paper's training columns. This page is "
    "written by make reproduction from docs/data/reproduction-cells.parquet and docs/data/reproduction.json."
)
ASIDE = 1.09  # from one method to the next along the logarithmic axis of d
MARKS = {True: " ✓", False: " ✗", None: ""}
ANSWERS = {True: "yes", False: "no", None: "–"}


def write_data(data: Path, cells: pd.DataFrame, facts: dict[str, Any]) -> None:
    data.mkdir(parents=True, exist_ok=True)
    with whole_file(data / CELLS_FILE) as file:
        cells.to_parquet(file, index=False)
    write_json(data / FACTS_FILE, facts)


def read_data(data: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """No cells and no facts if nothing is stored yet."""
    try:
        facts = load_json(data / FACTS_FILE)
        cells = pd.read_parquet(data / CELLS_FILE) if (data / CELLS_FILE).exists() else pd.DataFrame()
    except (DamagedFile, OSError, pa.ArrowException) as error:
        raise ConfigError(
            f"{data} holds a damaged file: {error}; take both files as they were committed, and add your sweeps again"
        ) from None
    if (facts is None) != cells.empty:
        raise ConfigError(f"{data} needs {CELLS_FILE} and {FACTS_FILE} from the same commit; one of them is missing")
    return cells, facts or {"sweeps": [], "searches": []}


def add_data(data: Path, cells: pd.DataFrame, facts: dict[str, Any]) -> None:
    """Add to what `data` holds already: cells as join_cells says, what is stored first. A sweep or search takes the
    place of the one that it continues.
    """
    stored, before = read_data(data)
    tables = [table for table in (stored, cells) if len(table)]
    if not tables:
        raise ConfigError(f"{data} has no cells yet; name sweeps with --default or --fitted too")
    for part, kept in before.items():
        new = {_identity(one) for one in facts[part]}
        facts[part] = [one for one in kept if _identity(one) not in new] + facts[part]
    write_data(data, join_cells(tables), facts)


def _identity(one: dict[str, Any]) -> tuple[Any, ...]:
    """Of a sweep or search: the same name may be in use on several machines."""
    return one.get("recipe"), one["name"], one["started"]


def write_page(docs: Path) -> Path:
    """The page and its pictures, from the files in docs/data."""
    data = docs / "data"
    cells, facts = read_data(data)
    if cells.empty:
        raise ConfigError(f"{data} has no cells yet; name sweeps with --default or --fitted")
    explanation = data / EXPLANATION
    sections = page_sections(cells, facts)
    text = to_markdown("The paper, reproduced", sections).replace("](figures/", "](")
    if explanation.exists():
        text = f"{text.rstrip()}\n\n{explanation.read_text().strip()}\n"
    (docs / PAGE).write_text(text)
    figures = [figure for section in sections for figure in section.figures]
    with TemporaryDirectory() as scratch:
        for figure in figures:
            draw(figure, Path(scratch), styles_of(methods_in(figures)))
            (docs / f"{figure.name}.png").write_bytes(Path(scratch, f"{figure.name}.png").read_bytes())
    return docs / PAGE


def page_sections(cells: pd.DataFrame, facts: dict[str, Any]) -> list[Section]:
    findings = {recipe: findings_of(cells, recipe) for recipe in OURS if (cells["recipe"] == recipe).any()}
    ours = {recipe: numbers_of(of_recipe) for recipe, of_recipe in findings.items()}
    sections = [
        _answer(ours),
        _scorecard(ours),
        _as_run(findings),
        _claims({recipe: means_of(of_recipe) for recipe, of_recipe in findings.items()}),
        search_section(facts["searches"]),
        _tables(ours),
        cost_section(cells, facts["sweeps"]),
        _missing(cells),
    ]
    return [section for section in sections if section]


def findings_of(cells: pd.DataFrame, recipe: str) -> Findings:
    chosen = cells[cells["recipe"] == recipe].drop(columns="recipe")
    params = [DEFAULTS | json.loads(text or "{}") for text in chosen["settings"]]
    epochs = pd.DataFrame(columns=["key", "epoch"])
    return Findings(StoredSweep(recipe, "FINISHED", "", "", chosen.assign(params=params), epochs))


def numbers_of(findings: Findings) -> dict[Kind, Number]:
    """Ours where the paper has one that means the same."""
    places = {kind: ((kind[0], kind[1], kind[3], kind[4]), kind[2]) for kind in paper_numbers()}
    ours = {kind: findings.numbers[place] for kind, place in places.items() if place in findings.numbers}
    return {kind: number for kind, number in ours.items() if number.paper is not None}


def means_of(findings: Findings) -> Means:
    """Of the data sets that mean the same as the paper's."""
    sweep = findings.sweep
    same = [dataset for dataset in sweep.datasets if comparable(sweep.settings(dataset), dataset)]
    values = sweep.values[sweep.values["dataset"].isin(same)]
    means = values.groupby(["dataset", "d", "method", "split", "metric"])["value"].mean()
    wobbles = sweep.finished[sweep.finished["dataset"].isin(same)].groupby(["dataset", "d", "method"])["oscillation"]
    return Means(means.to_dict(), wobbles.mean().dropna().to_dict())


# The sections


def _answer(ours: Mapping[str, Mapping[Kind, Number]]) -> Section:
    """At most five lines, which other pages may quote."""
    lines = []
    for recipe, numbers in ours.items():
        for dataset in sorted({kind[0] for kind in paper_numbers()}):
            counted = [kind for kind in paper_numbers() if kind[0] == dataset and not repeated(kind)]
            measured, training, held_out, _ = _score(counted, numbers)
            seeds = _seeds(numbers[kind] for kind in counted if kind in numbers)
            inside = f", {seeds}; inside: {training} in training, {held_out} held out" if seeds else ""
            lines.append(f"{pretty(dataset)}, {recipe} recipe: {measured} numbers of the paper measured{inside}.")
    return Section("answer", "In short", [Items(lines)])


def _seeds(numbers: Iterable[Number]) -> str:
    """`10 seeds`, `5 to 10 seeds`; empty without numbers."""
    counts = sorted({number.estimate.seeds for number in numbers})
    if not counts:
        return ""
    several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    return f"{several} seed{'s' * (counts != [1])}"


def _as_run(findings: Mapping[str, Findings]) -> Section | None:
    """The recipes as they were run, and how they differ from the paper's."""
    blocks: list[Block] = []
    for recipe, of_recipe in findings.items():
        sweep = of_recipe.sweep
        for dataset in sweep.datasets:
            if len(sweep.finished_of(dataset)):
                lines = [*as_run(sweep, dataset).lines, *differences(sweep, dataset)]
                blocks.append(Items(lines, f"{pretty(dataset)}, {recipe} recipe"))
    return Section("state", "What was run, and how it differs from the paper", blocks) if blocks else None


def _scorecard(ours: Mapping[str, Mapping[Kind, Number]]) -> Section:
    counted = [kind for kind in paper_numbers() if not repeated(kind)]
    rows: list[list[Entry | str]] = []
    datasets = sorted({kind[0] for kind in counted})
    for dataset in datasets:
        for method in (*PAPER_METHODS, "all methods"):
            kinds = [kind for kind in counted if kind[0] == dataset and method in (kind[2], "all methods")]
            scores = [text for numbers in ours.values() for text in _score(kinds, numbers)]
            rows.append([pretty(dataset), method, *scores])
    rows.append(["both", "all methods", *(text for numbers in ours.values() for text in _score(counted, numbers))])
    header = ["data set", "method"]
    metrics = " or ".join(metric_label(_headline(dataset)) for dataset in datasets)
    for recipe in ours:
        header += [f"{recipe}: measured", "inside, training", "inside, held out", f"{metrics}, mean of ours − paper"]
    blocks: list[Block] = [INTRODUCTION, SOURCE, HOW, Table("By method", header, rows)]
    figures = [figure for split in ("train", "holdout") if (figure := _figure(ours, split)).panels]
    return Section("scorecard", "Scorecard", [*blocks, *figures])


def _score(kinds: list[Kind], ours: Mapping[Kind, Number]) -> list[str]:
    paper = paper_numbers()
    numbers = {kind: ours[kind] for kind in kinds if kind in ours}
    texts = [f"{len(numbers)} of {len(kinds)}"]
    for trained in (True, False):
        judged = [n.inside for kind, n in numbers.items() if (kind[3] == "train") == trained and n.inside is not None]
        texts.append(f"{sum(judged)} of {len(judged)}" if judged else "–")
    apart = [n.estimate.mean - paper[kind] for kind, n in numbers.items() if kind[4] == _headline(kind[0])]
    one = len({kind[0] for kind in kinds}) == 1  # AUC and MAE have no common mean
    return [*texts, signed(sum(apart) / len(apart)) if apart and one else "–"]


def _headline(dataset: str) -> str:
    return headline_of({kind[4] for kind in paper_numbers() if kind[0] == dataset})


def _figure(ours: Mapping[str, Mapping[Kind, Number]], split: str) -> Figure:
    panels, paper = [], paper_numbers()
    for recipe, numbers in ours.items():
        for dataset in sorted({kind[0] for kind in numbers}):
            metric, series = _headline(dataset), []
            for i, method in enumerate(PAPER_METHODS):
                kinds = [k for k in numbers if (k[0], k[2], k[3], k[4]) == (dataset, method, split, metric)]
                apart = [numbers[k].estimate.mean - paper[k] for k in kinds]
                half = [numbers[k].prediction or 0.0 for k in kinds]
                low, high = ([a + sign * h for a, h in zip(apart, half, strict=True)] for sign in (-1, 1))
                beside = [k[1] * ASIDE ** (i - len(PAPER_METHODS) // 2) for k in kinds]
                if kinds:
                    series.append(Series(method, beside, apart, low, high, line=False))
            title, label = f"{pretty(dataset)}, {recipe} recipe", f"{metric_label(metric)}, ours − paper"
            axis = Panel(title, "d, methods side by side", label, series, x_log=True, share=dataset, zero_line=True)
            panels.append(replace(axis, x_ticks=sorted({float(kind[1]) for kind in paper if kind[0] == dataset})))
    title = f"Ours minus the paper's, {SPLITS[split]}"
    alt = f"Differences from the paper on the {SPLITS[split]}{' set' * (split == 'train')}, by d and method"
    caption = "Bars: where one more run of ours falls 95 times in 100, long ones are cut; no bar with a single seed."
    return Figure(f"reproduction-{split}", title, alt, panels, 2, caption)


def _claims(means: Mapping[str, Means]) -> Section:
    everyone = {"the paper's tables": Means(paper_numbers(), {})} | dict(means)
    rows: list[list[Entry | str]] = [
        [
            claim.section.split()[0],
            f"“{claim.quote}”",
            claim.rule,
            *(ANSWERS[claim.holds(m)] for m in everyone.values()),
        ]
        for claim in CLAIMS
    ]
    counts = []
    for name, own in everyone.items():
        decided = [held for claim in CLAIMS if (held := claim.holds(own)) is not None]
        counts.append(f"{name} {sum(decided)} of {len(decided)}")
    blocks: list[Block] = [
        f"Sentences of the paper's two discussions that hold: {', '.join(counts)} that can be decided. A mean over our "
        "seeds decides by the rule beside the sentence, without a test; the thresholds are ours. “–”: a number is "
        "missing (the paper's curves are pictures, not numbers, so its own tables cannot show oscillations).",
        Table("Sentences of the paper", ["section", "sentence", "our rule", *everyone], rows),
    ]
    return Section("claims", "What the paper says about its numbers", blocks)


def _tables(ours: Mapping[str, Mapping[Kind, Number]]) -> Section:
    paper = paper_numbers()
    places = dict.fromkeys((kind[0], kind[4], kind[1]) for kind in paper)
    blocks: list[Block] = [
        "Mean ± half the width of the interval in which one more run of ours falls 95 times in 100; ✓ the paper's "
        "number lies in it, ✗ it does not; without ± there is a single seed or a single split, and no verdict; – is "
        "not measured. The permuted holdout of an invariant method equals its holdout."
    ]
    for dataset, metric, d in places:
        rows: list[list[Entry | str]] = []
        for method in PAPER_METHODS:
            row: list[Entry | str] = [method]
            for split in ("train", "holdout", "holdout_perm"):
                kind = (dataset, d, method, split, metric)
                row += [f"{paper[kind]:.3f}", *(_number(numbers.get(kind)) for numbers in ours.values())]
            rows.append(row)
        header = ["method"]
        for split in ("training", "holdout", "permuted"):
            header += [f"{split}: paper", *ours]
        seeds = {
            recipe: _seeds(n for k, n in numbers.items() if (k[0], k[4], k[1]) == (dataset, metric, d))
            for recipe, numbers in ours.items()
        }
        told = "; ".join(f"{recipe}: {text or 'not measured'}" for recipe, text in seeds.items())
        blocks.append(Table(f"{pretty(dataset)}, {metric_label(metric)}, d = {d} ({told})", header, rows))
    return Section("tables", "The 16 tables", blocks)


def _number(number: Number | None) -> str:
    if number is None:
        return "–"
    if number.prediction is None:
        return f"{number.estimate.mean:.3f}"
    return f"{number.estimate.mean:.3f} ± {number.prediction:.3f}{MARKS[number.inside]}"


def _missing(cells: pd.DataFrame) -> Section:
    """Cells of the plans that are not finished, and cells of the paper that no plan has."""
    blocks: list[Block] = []
    wanted = dict.fromkeys(kind[:3] for kind in paper_numbers())
    for recipe in [recipe for recipe in OURS if (cells["recipe"] == recipe).any()]:
        of_recipe = cells[cells["recipe"] == recipe]
        for dataset in sorted({*of_recipe["dataset"], *(kind[0] for kind in wanted)}):
            chosen = of_recipe[of_recipe["dataset"] == dataset]
            title = f"{recipe}: {pretty(dataset)}"
            left = chosen[chosen["status"] != "FINISHED"]
            if len(left):
                blocks.append(by_method_and_d(chosen, f"{title}, finished seeds", _finished))
            lines = [
                f"{title}, {row.method}, d = {row.d}, seed {row.seed}: {_how_far(row)}"
                for row in left.itertuples()
                if row.epoch or row.error
            ]
            planned = set(zip(chosen["d"], chosen["method"], strict=True))
            paper = [(d, method) for name, d, method in wanted if name == dataset]
            if absent := [f"{method} d = {d}" for d, method in paper if (d, method) not in planned]:
                which = ", ".join(absent) if len(absent) < len(paper) else f"all {len(paper)} cells"
                lines.append(f"{title}, not planned: {which}")
            if lines:
                blocks.append(Items(lines))
    return Section("missing", "What is missing", blocks or ["Nothing: every cell was run to its end."])


def _finished(seeds: pd.DataFrame) -> str:
    return f"{(seeds['status'] == 'FINISHED').sum()} of {len(seeds)}"


def _how_far(row: Any) -> str:
    where = f"epoch {row.epoch} of {row.epochs}"
    if row.status == "FAILED":
        return f"failed after {where}: {row.error}"
    return where
