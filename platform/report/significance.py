"""Is it luck? Paired tests, effect sizes, ranks over data sets."""

from permlab.platform.report.blocks import Block, Entry, Figure, Panel, Section, Series, Table
from permlab.platform.report.findings import Findings, Ranks
from permlab.platform.report.statistics import ALPHA, LEAST_BLOCKS, POWER
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty, signed
from permlab.platform.report.used import listed
from permlab.tasks.metrics import metric_label

RANDOM_SPLITS = (
    "Every seed has a random split of its own, and seeds are paired: the same seed gives every method the same split "
    "and the same order of the data. The splits of two seeds overlap, so their results are not independent; the "
    "paired t-test is corrected for that as Nadeau and Bengio (2003) propose (variance times 1/n + n_test/n_train). "
    "The intervals of the tables are not corrected: they say how precise the mean over seeds is on this data "
    "set."
)
ONE_SPLIT = (
    "All seeds hold out the same graphs, and differ only in weights and in the order of the data. "
    "Tests and intervals are therefore about this one split: whether methods differ on it by more than the luck of "
    "weights and order. On another split the methods may rank differently. Runs on one split are independent, "
    "so the test is the ordinary paired t-test."
)
FOLDS = (
    "Every fold is held out in turn, and folds are paired: a fold has the same graphs for every method. The runs of a "
    "fold are averaged first, so the tests count folds, not runs. Folds share training graphs, so the paired t-test is "
    "corrected as Nadeau and Bengio (2003) propose (variance times 1/n + n_test/n_train). The intervals of the tables "
    "are not corrected."
)
FAMILY = (
    "Holm's correction covers everything in a table: every pair of methods at every d. Effect size: Hedges' g "
    "of the paired differences. Training rows are not tested. A difference that is not significant is not shown to be "
    "zero: the last table says how large one has to be to be found, by the noncentral t-distribution of the same test "
    "at the median standard error of the pairs, which is itself an estimate from few runs."
)
RANKS = (
    "Ranks over data sets, by the headline metric. A data set is one block, in which methods are ranked by their mean "
    "rank over d and {units}; {units} and widths of one data set are not independent evidence. Friedman's test, and if "
    "it rejects, Nemenyi's critical difference."
)
DESCRIPTION = (
    "Mean ranks over d and {units}, by the headline metric: a description. A test of ranks needs at least "
    f"{LEAST_BLOCKS} data sets, because {{units}} and widths of one data set are not independent evidence; here there "
)


def luck_section(findings: Findings) -> Section:
    blocks: list[Block] = []
    if findings.testable:
        blocks += [*_how(findings), FAMILY]
        for dataset in findings.sweep.datasets:
            for split in [name for name in findings.splits(dataset) if name != "train"]:
                blocks += _pairs(findings, dataset, split)
        blocks.append(_power(findings))
    else:
        blocks.append(findings.why_no_test())
    ranks_by_split = {split: findings.ranks(split) for split in ("holdout", "holdout_perm", "validation")}
    shown = {split for dataset in findings.sweep.datasets for split in findings.splits(dataset)}
    ranked = {split: ranks for split, ranks in ranks_by_split.items() if ranks and split in shown}
    if ranked:
        first = next(iter(ranked.values()))
        blocks.append(ranks_told(findings, first))
    blocks += [ranks_figure(split, ranks) for split, ranks in ranked.items()]
    return Section("tests", "Is it luck?", blocks)


def ranks_told(findings: Findings, ranks: Ranks) -> str:
    """What the ranks are over, whether they are tested, and who is left out."""
    units = findings.sweep.units.replace(" or ", " and ")
    count = "is one" if ranks.datasets == 1 else f"are {ranks.datasets}"
    told = (RANKS if ranks.test else f"{DESCRIPTION}{count}.").format(units=units)
    return told + (f" Not ranked, for lack of {units}: {', '.join(ranks.left_out)}." if ranks.left_out else "")


def _how(findings: Findings) -> list[str]:
    """What the tests are about; per data set, if that differs."""
    told = {dataset: ONE_SPLIT if findings.one_split(dataset) else RANDOM_SPLITS for dataset in findings.sweep.datasets}
    told |= {dataset: FOLDS for dataset in told if findings.sweep.unit(dataset) == "folds"}
    texts = list(dict.fromkeys(told.values()))
    if len(texts) == 1:
        return texts
    return [f"{', '.join(pretty(name) for name in told if told[name] == text)}: {text}" for text in texts]


def _pairs(findings: Findings, dataset: str, split: str) -> list[Block]:
    """All pairs at every d, by the headline metric; smallest p first."""
    metric = findings.sweep.headline(dataset) or ""
    pairs = [
        (d, comparison)
        for d in findings.sweep.widths(dataset)
        for comparison in findings.comparisons.get((dataset, d, split, metric), [])
    ]
    if not pairs:
        return []
    pairs.sort(key=lambda item: (item[0], item[1].test.p))
    significant = sum(comparison.significant for _, comparison in pairs)
    rows: list[list[Entry | str]] = [
        [
            f"{comparison.first} − {comparison.second}",
            str(d),
            str(comparison.test.seeds),
            signed(comparison.test.difference, 4),
            f"{comparison.test.t:.2f}",
            p_text(comparison.test.p),
            Entry(p_text(comparison.p_holm), comparison.significant),
            signed(comparison.test.g, 2),
        ]
        for d, comparison in pairs
    ]
    name = f"{pretty(dataset)}, {metric_label(metric)}, {SPLITS[split]}"
    where = " on this split" if findings.one_split(dataset) else ""
    title = f"{name}: {significant} of {len(pairs)} pairs of methods differ significantly{where} (Holm's p < {ALPHA})"
    t = "t" if findings.one_split(dataset) else "t, corrected"
    header = ["pair", "d", findings.sweep.unit(dataset), "difference", t, "p", "p, Holm", "Hedges' g"]
    return [Table(title, header, rows, folded=True)]


def _power(findings: Findings) -> Table:
    """What difference could be found at all, by the headline metric."""
    rows: list[list[Entry | str]] = []
    for dataset in findings.sweep.datasets:
        metric = findings.sweep.headline(dataset) or ""
        for split in [name for name in findings.splits(dataset) if name != "train"]:
            for d in findings.sweep.widths(dataset):
                place = (dataset, d, split, metric)
                if found := findings.detectable(place):
                    seeds = sorted({pair.test.seeds for pair in findings.comparisons[place]})
                    where = f"{pretty(dataset)}, {metric_label(metric)}, {SPLITS[split]}"
                    numbers = [f"{found.alone:.3f}", f"{found.first:.3f}", str(found.pairs)]
                    rows.append([where, str(d), listed(map(str, seeds)), *numbers])
    units = findings.sweep.units
    title = f"What difference between two methods these {units} could detect: found in {POWER:.0%} of repetitions"
    return Table(title, ["where", "d", units, "one pair alone", "first step of Holm's", "pairs"], rows)


def p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def p_is(p: float) -> str:
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def ranks_figure(split: str, ranks: Ranks) -> Figure:
    """With the critical difference if Friedman's test rejects; else only mean ranks."""
    test = ranks.test
    rejects = test is not None and test.p < ALPHA
    half = test.critical_difference / 2 if test and rejects else 0.0
    ordered = sorted(zip(ranks.mean_ranks, ranks.methods, strict=True))
    series = [
        Series(method, [rank], [0.0], [rank - half] if half else [], [rank + half] if half else [], line=False)
        for rank, method in ordered
    ]
    facts = "A description, not a test."
    if test:
        facts = f"Friedman χ² = {test.chi2:.2f}, {p_is(test.p)} over {test.blocks} data sets" + (
            f"; critical difference {test.critical_difference:.2f}. Bars are one critical difference wide: methods "
            "whose bars do not overlap differ significantly. Grey: groups of methods that do not."
            if rejects
            else ": no method differs significantly from another."
        )
    title = f"Mean rank, {SPLITS[split]}"
    panel = Panel(title, "mean rank (1 is best)", "", series, "rows", groups=test.groups() if test and rejects else [])
    spoken = ", ".join(f"{method} {rank:.2f}" for rank, method in ordered)
    return Figure(f"ranks-{split}", title, f"{title}, the best first: {spoken}. {facts}", [panel], 1, facts)
