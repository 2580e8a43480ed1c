"""docs/reproduction.md from the stored cells and facts alone: written again it is the same, which a test checks."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from permlab.platform.display.palette import styles_of
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.report.blocks import Block, Entry, Figure, Items, Panel, Section, Series, Table, methods_in
from permlab.platform.report.findings import Findings, Number
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.picture import draw
from permlab.platform.report.results import Kind, paper_numbers
from permlab.platform.report.scorecard import HOW, SOURCE, repeated
from permlab.platform.report.stored import SPLITS, StoredSweep
from permlab.platform.report.tables import pretty, signed
from permlab.platform.reproduce.claims import CLAIMS, Means
from permlab.platform.reproduce.collect import RECIPES, join_cells
from permlab.platform.reproduce.cost import cost_section
from permlab.platform.reproduce.search_section import search_section
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.metrics import headline_of, metric_label

CELLS, FACTS, EXPLANATION = "reproduction-cells.parquet", "reproduction.json", "reproduction-explanation.md"
PAGE = "reproduction.md"
INTRODUCTION = (
    "Does PermLab get the paper's numbers? Each of the 336 in its 16 tables is beside ours, for the default recipe "
    "and, where it was run, for the one that permlab reproduce fitted to the paper's training columns. This page is "
    "written by make reproduction from docs/data/reproduction-cells.parquet and docs/data/reproduction.json."
)
MARKS = {True: " ✓", False: " ✗", None: ""}
ANSWERS = {True: "yes", False: "no", None: "–"}


def write_data(data: Path, cells: pd.DataFrame, facts: dict[str, Any]) -> None:
    data.mkdir(parents=True, exist_ok=True)
    cells.to_parquet(data / CELLS, index=False)
    write_json(data / FACTS, facts)


def add_data(data: Path, cells: pd.DataFrame, facts: dict[str, Any]) -> None:
    """Add to what `data` holds already. Of a cell that both have, a finished one stays, else the new one; a sweep or
    search of the same name is replaced.
    """
    if (data / CELLS).exists():
        cells = join_cells([cells, pd.read_parquet(data / CELLS)])
        before = read_json(data / FACTS) or {}
        for part, kept in before.items():
            names = {each["name"] for each in facts[part]}
            facts[part] = [each for each in kept if each["name"] not in names] + facts[part]
    write_data(data, cells, facts)


def write_page(docs: Path) -> Path:
    """The page and its pictures, from the files in docs/data."""
    data = docs / "data"
    cells, facts = pd.read_parquet(data / CELLS), read_json(data / FACTS) or {}
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
    found = {recipe: findings_of(cells, recipe) for recipe in RECIPES if (cells["recipe"] == recipe).any()}
    ours = {recipe: numbers_of(findings) for recipe, findings in found.items()}
    sections = [
        _scorecard(ours),
        _claims({recipe: means_of(cells, recipe) for recipe in ours}),
        search_section(facts["searches"]),
        _tables(ours),
        cost_section(cells, facts["sweeps"]),
        _missing(cells),
    ]
    return [section for section in sections if section]


def findings_of(cells: pd.DataFrame, recipe: str) -> Findings:
    chosen = cells[cells["recipe"] == recipe].drop(columns="recipe")
    return Findings(StoredSweep(recipe, "FINISHED", "", "", chosen, pd.DataFrame(columns=["key", "epoch"])))


def numbers_of(findings: Findings) -> dict[Kind, Number]:
    """Ours where the paper has one."""
    places = {kind: ((kind[0], kind[1], kind[3], kind[4]), kind[2]) for kind in paper_numbers()}
    return {kind: findings.numbers[place] for kind, place in places.items() if place in findings.numbers}


def means_of(cells: pd.DataFrame, recipe: str) -> Means:
    chosen = cells[(cells["recipe"] == recipe) & (cells["status"] == "FINISHED")]
    grouped = chosen.groupby(["dataset", "d", "method"])
    numbers = {
        (str(dataset), int(d), str(method), *column.split("/", 1)): float(value)
        for column in chosen.columns
        if "/" in column
        for (dataset, d, method), value in grouped[column].mean().dropna().items()
    }
    wobbles = grouped["oscillation"].mean().dropna() if "oscillation" in chosen else pd.Series(dtype=float)
    oscillation = {(str(dataset), int(d), str(method)): float(v) for (dataset, d, method), v in wobbles.items()}
    return Means(numbers, oscillation)


def papers_means() -> Means:
    return Means({(kind[0], kind[1], kind[2], kind[3], kind[4]): value for kind, value in paper_numbers().items()}, {})


# The sections


def _scorecard(ours: Mapping[str, Mapping[Kind, Number]]) -> Section:
    counted = [kind for kind in paper_numbers() if not repeated(kind)]
    rows: list[list[Entry | str]] = []
    datasets = sorted({kind[0] for kind in counted})
    for dataset in datasets:
        for method in (*PAPER_METHODS, "all methods"):
            kinds = [kind for kind in counted if kind[0] == dataset and method in (kind[2], "all methods")]
            rows.append([pretty(dataset), method, *(text for found in ours.values() for text in _score(kinds, found))])
    rows.append(["both", "all methods", *(text for found in ours.values() for text in _score(counted, found))])
    header = ["data set", "method"]
    metrics = " or ".join(metric_label(_headline(dataset)) for dataset in datasets)
    for recipe in ours:
        header += [f"{recipe}: measured", "inside, training", "inside, held out", f"{metrics}, mean of ours − paper"]
    blocks: list[Block] = [INTRODUCTION, SOURCE, HOW, Table("By method", header, rows)]
    return Section("scorecard", "Scorecard", [*blocks, *(_figure(ours, split) for split in ("train", "holdout"))])


def _score(kinds: list[Kind], found: Mapping[Kind, Number]) -> list[str]:
    numbers = {kind: found[kind] for kind in kinds if kind in found}
    texts = [f"{len(numbers)} of {len(kinds)}"]
    for trained in (True, False):
        judged = [n.inside for kind, n in numbers.items() if (kind[3] == "train") == trained and n.inside is not None]
        texts.append(f"{sum(judged)} of {len(judged)}" if judged else "–")
    apart = [n.estimate.mean - (n.paper or 0.0) for kind, n in numbers.items() if kind[4] == _headline(kind[0])]
    one = len({kind[0] for kind in kinds}) == 1  # AUC and MAE have no common mean
    return [*texts, signed(sum(apart) / len(apart)) if apart and one else "–"]


def _headline(dataset: str) -> str:
    return headline_of({kind[4] for kind in paper_numbers() if kind[0] == dataset})


def _figure(ours: Mapping[str, Mapping[Kind, Number]], split: str) -> Figure:
    panels = []
    for recipe, found in ours.items():
        for dataset in sorted({kind[0] for kind in found}):
            metric, series = _headline(dataset), []
            for method in PAPER_METHODS:
                kinds = [k for k in found if (k[0], k[2], k[3], k[4]) == (dataset, method, split, metric)]
                apart = [found[k].estimate.mean - (found[k].paper or 0.0) for k in kinds]
                half = [found[k].prediction or 0.0 for k in kinds]
                low, high = ([a + sign * h for a, h in zip(apart, half, strict=True)] for sign in (-1, 1))
                if kinds:
                    series.append(Series(method, apart, [], low, high, [f"d = {k[1]}" for k in kinds]))
            title = f"{pretty(dataset)}, {recipe} recipe"
            label = f"{SPLITS[split]} {metric_label(metric)}, ours − paper"
            share = f"{dataset}"
            panels.append(Panel(title, label, "", series, kind="rows", share=share, zero_line=True))
    title = f"Ours minus the paper's, {SPLITS[split]}"
    caption = "A point per width d; bars: where one more run of ours falls 95 times in 100, as far as there are seeds."
    return Figure(
        f"reproduction-{split}", title, f"Differences to the paper on the {SPLITS[split]}", panels, 2, caption
    )


def _claims(means: Mapping[str, Means]) -> Section:
    everyone = {"the paper's tables": papers_means()} | dict(means)
    rows: list[list[Entry | str]] = [
        [claim.section.split()[0], f"“{claim.quote}”", *(ANSWERS[claim.holds(each)] for each in everyone.values())]
        for claim in CLAIMS
    ]
    counts = []
    for name, each in everyone.items():
        decided = [held for claim in CLAIMS if (held := claim.holds(each)) is not None]
        counts.append(f"{name} {sum(decided)} of {len(decided)}")
    blocks: list[Block] = [
        f"Sentences of the paper's two discussions that hold: {', '.join(counts)} that can be decided. A mean over our "
        "seeds decides, without a test; platform/reproduce/claims.py has the rule for each. “–”: a number is missing "
        "(the paper prints no curves, so its own tables cannot show oscillations).",
        Table("Sentences of the paper", ["section", "sentence", *everyone], rows),
    ]
    return Section("claims", "What the paper says about its numbers", blocks)


def _tables(ours: Mapping[str, Mapping[Kind, Number]]) -> Section:
    paper = paper_numbers()
    places = dict.fromkeys((kind[0], kind[4], kind[1]) for kind in paper)
    blocks: list[Block] = [
        "Mean ± half the width of the interval in which one more run of ours falls 95 times in 100; ✓ the paper's "
        "number lies in it, ✗ it does not; without ± there is a single seed, and no verdict; – is not measured. The "
        "permuted holdout of an invariant method equals its holdout."
    ]
    for dataset, metric, d in places:
        rows: list[list[Entry | str]] = []
        for method in PAPER_METHODS:
            row: list[Entry | str] = [method]
            for split in ("train", "holdout", "holdout_perm"):
                kind = (dataset, d, method, split, metric)
                row += [f"{paper[kind]:.3f}", *(_number(found.get(kind)) for found in ours.values())]
            rows.append(row)
        header = ["method"]
        for split in ("training", "holdout", "permuted"):
            header += [f"{split}: paper", *ours]
        blocks.append(Table(f"{pretty(dataset)}, {metric_label(metric)}, d = {d}", header, rows))
    return Section("tables", "The 16 tables", blocks)


def _number(number: Number | None) -> str:
    if number is None:
        return "–"
    if number.prediction is None:
        return f"{number.estimate.mean:.3f}"
    return f"{number.estimate.mean:.3f} ± {number.prediction:.3f}{MARKS[number.inside]}"


def _missing(cells: pd.DataFrame) -> Section:
    """Cells of the plans that are not finished, and cells of the paper that no plan has."""
    lines = []
    for row in cells[cells["status"] != "FINISHED"].itertuples():
        far = f"epoch {row.epoch} of {row.epochs}" if row.epoch else "not begun"
        lines.append(f"{row.recipe}: {pretty(row.dataset)}, {row.method}, d = {row.d}, seed {row.seed}: {far}")
    wanted = dict.fromkeys(kind[:3] for kind in paper_numbers())
    for recipe in [recipe for recipe in RECIPES if (cells["recipe"] == recipe).any()]:
        chosen = cells[cells["recipe"] == recipe]
        planned = set(zip(chosen["dataset"], chosen["d"], chosen["method"], strict=True))
        for dataset in sorted({kind[0] for kind in wanted}):
            paper = [kind for kind in wanted if kind[0] == dataset]
            absent = [f"{method} d = {d}" for name, d, method in paper if (name, d, method) not in planned]
            if absent:
                which = ", ".join(absent) if len(absent) < len(paper) else f"all {len(paper)} cells"
                lines.append(f"{recipe}: {pretty(dataset)}, not planned: {which}")
    return Section("missing", "What is missing", [Items(lines) if lines else "Nothing: every cell was run to its end."])
