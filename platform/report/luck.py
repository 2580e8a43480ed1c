"""Is it luck? Paired tests, effect sizes, ranks over all cells."""

from permlab.platform.report.blocks import Block, Entry, Figure, Panel, Section, Series, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.statistics import ALPHA, Ranking
from permlab.platform.report.stored import METRIC_NAMES, SPLITS
from permlab.platform.report.tables import pretty

HOW = (
    "Seeds are paired: the same seed gives every method the same split and the same order of the data. The splits of "
    "two seeds overlap, so their results are not independent; the paired t-test is corrected for that as Nadeau and "
    "Bengio (2003) propose (variance times 1/n + n_test/n_train), and for the number of pairs by Holm. "
    "Effect size: Hedges' g of the paired differences. The intervals of the tables are not corrected: they say how far "
    "the mean over seeds can be trusted on this data set."
)
RANKS = (
    "Ranks over blocks (data set, d, seed), by Friedman's test with Iman and Davenport's F; methods whose mean ranks "
    "lie further apart than the critical difference differ by Nemenyi's test. Blocks of one data set share its graphs, "
    "so these p-values are optimistic."
)


def luck_section(findings: Findings) -> Section:
    blocks: list[Block] = [HOW]
    if not findings.testable:
        return Section("tests", "Is it luck?", [findings.why_no_test()])
    for dataset in findings.sweep.datasets:
        for split in [name for name in findings.sweep.splits(dataset) if name != "train"]:
            blocks += _pairs(findings, dataset, split)
    for split in ("holdout", "holdout_perm", "validation"):
        ranked = findings.ranking(split)
        if ranked:
            blocks += [RANKS] if not any(isinstance(block, Figure) for block in blocks) else []
            blocks.append(critical_difference(split, *ranked))
    if not any(isinstance(block, Figure) for block in blocks):
        blocks.append("No ranking is possible: it takes three methods that share three or more blocks.")
    return Section("tests", "Is it luck?", blocks)


def _pairs(findings: Findings, dataset: str, split: str) -> list[Block]:
    """All pairs at every d, by the headline metric; the surest first."""
    metric = findings.sweep.headline(dataset) or ""
    found = [
        (d, comparison)
        for d in findings.sweep.widths(dataset)
        for comparison in findings.comparisons.get((dataset, d, split, metric), [])
    ]
    if not found:
        return []
    found.sort(key=lambda item: (item[0], item[1].test.p))
    surely = sum(comparison.p_holm < ALPHA for _, comparison in found)
    rows: list[list[Entry | str]] = [
        [
            f"{comparison.first} − {comparison.second}",
            str(d),
            str(comparison.test.seeds),
            f"{comparison.test.difference:+.4f}",
            f"{comparison.test.t:.2f}",
            p_text(comparison.test.p),
            Entry(p_text(comparison.p_holm), comparison.p_holm < ALPHA),
            f"{comparison.test.g:+.2f}",
        ]
        for d, comparison in found
    ]
    name = f"{pretty(dataset)}, {METRIC_NAMES.get(metric, metric)}, {SPLITS[split]}"
    title = f"{name}: {surely} of {len(found)} pairs of methods differ (corrected p < {ALPHA})"
    header = ["pair", "d", "seeds", "difference", "t, corrected", "p", "p, Holm", "Hedges' g"]
    return [Table(title, header, rows, folded=True)]


def p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def p_is(p: float) -> str:
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def critical_difference(split: str, methods: list[str], ranking: Ranking) -> Figure:
    half = ranking.critical_difference / 2
    ordered = sorted(zip(ranking.mean_ranks, methods, strict=True))
    series = [Series(method, [rank], [0.0], [rank - half], [rank + half], line=False) for rank, method in ordered]
    best, last = ordered[0], ordered[-1]
    facts = (
        f"Friedman χ² = {ranking.chi2:.2f}, F = {ranking.f:.2f}, {p_is(ranking.p)} over {ranking.blocks} blocks; "
        f"critical difference {ranking.critical_difference:.2f}"
    )
    title = f"Mean rank, {SPLITS[split]}"
    panel = Panel(title, "mean rank (1 is best)", "", series, "rows", groups=ranking.groups())
    alt = f"{title}: best {best[1]} with {best[0]:.2f}, last {last[1]} with {last[0]:.2f}. {facts}."
    caption = f"{facts}. Bars are one critical difference wide: methods whose bars do not overlap differ. Grey: groups "
    return Figure(
        f"critical-difference-{split}",
        title,
        alt,
        [panel],
        1,
        caption + "that the test does not tell apart.",
    )
