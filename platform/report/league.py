"""The league: all methods in one list, and beside each score what is proved of the map and what was found."""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from permlab.platform.report.blocks import Block, Entry, Figure, Panel, Section, Series, Table
from permlab.platform.report.facts import PROVED, Found, MapFacts, everywhere, facts_by_place
from permlab.platform.report.findings import Findings, Place, Ranks
from permlab.platform.report.overview import row
from permlab.platform.report.significance import ranks_told
from permlab.platform.report.standings import standings
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.metrics import higher_is_better, metric_label

PROVED_HOW = (
    "Proved: what theorems say of the map as it was built here, with its options, this d and room for the largest "
    "graph of the data set. “no” also where no theorem says more. It is about all matrices, for almost all weights "
    "where they are random or trained; it says nothing of Γ before it and ζ after it."
)
FOUND_HOW = (
    "Found: what the certificates measured on the trained maps, on graphs of the holdout, at worst over seeds. “error” "
    "is the largest relative change by permuted nodes, 1e-15 is rounding. “ratio” is the largest Lipschitz ratio of a "
    "trained map over its smallest one: it does not depend on the map's scale. “gap” is the smallest distance of two "
    "images over the median one; a collision is a gap of 0, but for rounding. Not found is not proved."
)
MARKS = {"yes": False, "almost everywhere": True}  # hollow or not; of anything else there is no mark


@dataclass(frozen=True)
class League:
    """What the section, and docs/league.md, are made of."""

    findings: Findings

    @cached_property
    def places(self) -> list[Place]:
        """Where the methods are compared: every data set and d with its headline metric."""
        sweep = self.findings.sweep
        every = [
            (dataset, d, sweep.judged_by(dataset) or "", sweep.headline(dataset) or "")
            for dataset in sweep.datasets
            for d in sweep.widths(dataset)
        ]
        return [place for place in every if place in self.findings.by_place]

    @cached_property
    def ranks(self) -> Ranks | None:
        return self.findings.ranks(self.places[0][2])

    @cached_property
    def methods(self) -> dict[str, float | None]:
        """Every measured method with its mean rank, the best first; those without one last."""
        ranks = self.ranks
        ranked = sorted(zip(ranks.mean_ranks, ranks.methods, strict=True)) if ranks else []
        measured = {method for place in self.places for method in self.findings.by_place[place].columns}
        rest = [method for method in self.findings.sweep.methods if method in measured]
        return {method: rank for rank, method in ranked} | {m: None for m in rest if not ranks or m in ranks.left_out}

    @cached_property
    def facts(self) -> dict[tuple[str, int, str], MapFacts]:
        return facts_by_place(self.findings.sweep)

    @cached_property
    def everywhere(self) -> dict[str, MapFacts]:
        """By method: what holds, and what was found at worst, over all data sets and d."""
        at = [(dataset, d) for dataset, d, *_ in self.places]
        return {
            method: everywhere([self.facts[*place, method] for place in at if (*place, method) in self.facts])
            for method in self.methods
        }

    def name(self, place: Place) -> str:
        widths = {d for _, d, *_ in self.places}
        return pretty(place[0]) + (f", d = {place[1]}" if len(widths) > 1 else "")


def league_section(findings: Findings) -> Section | None:
    """None where only methods of the paper were compared: the tables then say all of it."""
    league = League(findings)
    if set(findings.sweep.methods) <= set(PAPER_METHODS) or not league.places:
        return None
    return Section("league", "The league", [*league_blocks(league), *_details(league)])


def league_blocks(league: League) -> list[Block]:
    """The picture, the table, what is significant: also in docs/league.md."""
    return [
        _intro(league),
        league_figure(league),
        league_table(league),
        PROVED_HOW,
        FOUND_HOW,
        _against_the_facts(league),
        *_by_fact(league),
        *standings(league.findings, league.places),
    ]


def _intro(league: League) -> str:
    counted = f"{len(league.methods)} methods"
    if league.ranks is None:
        return f"{counted}. No ranks: too few of them have {league.findings.sweep.units} in common."
    return f"{counted}, sorted by mean rank. {ranks_told(league.findings, league.ranks)}"


def league_figure(league: League) -> Figure:
    """Scores, sorted by mean rank, and beside them a mark for each thing that is proved or was found."""
    panels = [_scores(league, place) for place in league.places]
    facts = league.everywhere
    proved = {
        method: {name: each.stated.get(key, "") for key, name in PROVED.items()} for method, each in facts.items()
    }
    words, others = {True: "yes", False: "no", None: ""}, {True: "no", False: "yes", None: ""}
    found = {
        method: {"invariant": words[each.found.invariant], "no collision": others[each.found.collision]}
        for method, each in facts.items()
    }
    panels += [_marks("Proved", proved), _marks("Found", found)]
    title = "The league: methods by mean rank"
    spoken = [
        f"{method}" + (f", mean rank {rank:.1f}" if rank else "") + f", proved: {_listed(proved[method])}"
        for method, rank in league.methods.items()
    ]
    caption = (
        "Means and 95 % intervals. Hollow: differs significantly from the best (Holm's correction over all pairs). "
        "Marks: yes; hollow: almost everywhere; none: no, or not known. Over all data sets and d."
    )
    return Figure("league", title, f"{title}. {'; '.join(spoken)}.", panels, min(len(panels), 4), caption)


def _listed(words: dict[str, str]) -> str:
    holds = [name if word == "yes" else f"{name} {word}" for name, word in words.items() if word in MARKS]
    return ", ".join(holds) or "nothing"


def _scores(league: League, place: Place) -> Panel:
    numbers = {method: league.findings.numbers.get((place, method)) for method in league.methods}
    best = next((method for method, number in numbers.items() if number and number.best), "")
    series = []
    for method, number in numbers.items():
        if number is None:
            series.append(Series(method, [], [], line=False))
            continue
        shown = row(method, number.estimate)
        test = league.findings.compare(place, best, method)
        worse = test is not None and test.significant
        series.append(Series(method, shown.x, shown.y, shown.low, shown.high, line=False, hollow=worse))
    _, _, split, metric = place
    better = "higher" if higher_is_better(metric) else "lower"
    label = f"{SPLITS[split]} {metric_label(metric)}"
    return Panel(f"{league.name(place)}: {better} is better", label, "", series, "rows")


def _marks(title: str, words: dict[str, dict[str, str]]) -> Panel:
    """One column per name; `words` by method and name."""
    names = list(next(iter(words.values())))
    series = []
    for method, told in words.items():
        every = [(hollow, [i for i, name in enumerate(names) if told[name] == word]) for word, hollow in MARKS.items()]
        for hollow, at in every:
            labels = [told[names[i]] for i in at]
            marks = [float(i) for i in at]
            series.append(Series(method, marks, [0.0] * len(at), labels=labels, line=False, hollow=hollow))
    return Panel(title, "", "", series, "rows", x_names=names)


def league_table(league: League) -> Table:
    """One row per method: rank, scores, what is proved, what was found at worst."""
    header = ["method", "mean rank", *(f"{league.name(p)}, {metric_label(p[3])}" for p in league.places)]
    header += [*PROVED.values(), "error", "ratio", "gap"]
    rows: list[list[Entry | str]] = []
    for method, rank in league.methods.items():
        facts = league.everywhere[method]
        rows.append(
            [
                method,
                "–" if rank is None else f"{rank:.2f}",
                *(_score(league, place, method) for place in league.places),
                *_proved(facts),
                *_found(facts.found),
            ]
        )
    return Table("Scores, what is proved, what was found", header, rows)


def _score(league: League, place: Place, method: str) -> Entry:
    number = league.findings.numbers.get((place, method))
    return Entry("–") if number is None else Entry(str(number.estimate), number.best or number.tied)


def _proved(facts: MapFacts) -> list[Entry | str]:
    return [facts.stated.get(key, "–") for key in PROVED]


def _found(found: Found) -> list[Entry | str]:
    error, ratio, gap = (_short(value) for value in (found.invariance_error, found.distortion, found.gap))
    moved = found.invariant is False
    return [
        Entry(error, note="not invariant" if moved else "", good=False if moved else None),
        ratio,
        Entry(gap, note="collision" if found.collision else "", good=False if found.collision else None),
    ]


def _against_the_facts(league: League) -> str:
    """Whether a certificate refutes what is proved, and where it shows what is not."""
    lines = [
        f"{method} {line} ({league.name(place)})"
        for place in league.places
        for method in league.methods
        if (facts := league.facts.get((place[0], place[1], method)))
        for line in facts.refuted
    ]
    collide = [method for method, facts in league.everywhere.items() if facts.found.collision]
    moved = [method for method, facts in league.everywhere.items() if facts.found.invariant is False]
    told = [f"Against what is proved: {'; '.join(lines)}." if lines else "No finding contradicts what is proved."]
    told.append(f"Seen not to be invariant: {', '.join(moved) or 'no method'}.")
    told.append(f"Two different graphs with one image: {', '.join(collide) or 'no method'}.")
    return " ".join(told)


def _by_fact(league: League) -> list[Block]:
    """Mean ranks of the methods of which the same is proved: a description."""
    if league.ranks is None:
        return []
    stated = {method: league.everywhere[method].stated for method, rank in league.methods.items() if rank is not None}
    rows: list[list[Entry | str]] = []
    for key, name in PROVED.items():
        for word in ("yes", "almost everywhere", "no"):
            ranks = [(league.methods[method], method) for method, facts in stated.items() if facts.get(key) == word]
            values = [rank for rank, _ in ranks if rank is not None]
            if values:
                numbers = [f"{value:.1f}" for value in (fmean(values), min(values), max(values))]
                rows.append([f"{name}: {word}", str(len(values)), *numbers])
    title = "Mean ranks by what is proved: a description, not a test"
    return [Table(title, ["", "methods", "mean", "best", "worst"], rows)] if rows else []


def _details(league: League) -> list[Block]:
    """Per data set and d: m, what is proved and by whom, and the certificates in full."""
    tables: list[Block] = []
    for place in league.places:
        rows: list[list[Entry | str]] = []
        for method in league.methods:
            facts = league.facts.get((place[0], place[1], method))
            if facts is None:
                continue
            low, high = _short(facts.found.ratio_min), _short(facts.found.ratio_max)
            error, _, gap = _found(facts.found)
            m = f"{facts.m:,}" if facts.m else "–"
            rows.append([method, m, *_proved(facts), error, low, high, gap, facts.reference or "–"])
        header = ["method", "m", *PROVED.values(), "invariance error", "smallest ratio", "largest ratio", "gap"]
        title = f"{league.name(place)}: what is proved of each map as it was built, and what was found"
        tables.append(Table(title, [*header, "reference"], rows, folded=True))
    return tables


def _short(value: float) -> str:
    """With two digits."""
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.2g}"
