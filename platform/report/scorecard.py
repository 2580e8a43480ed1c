"""The reproduction scorecard: each of the paper's numbers beside ours."""

from permlab.platform.report.blocks import Block, Entry, Items, Section, Table
from permlab.platform.report.findings import Findings, Number
from permlab.platform.report.stored import METRIC_NAMES, SPLITS
from permlab.platform.report.tables import pretty
from permlab.platform.results import Kind, paper_numbers
from permlab.readouts.names import PAPER_METHODS

SOURCE = (
    "The paper: R. Balan, N. Haghani, M. Singh, “Permutation Invariant Representations with Applications to Graph Deep "
    "Learning”, appendix, 16 tables. Each of its numbers is a single run."
)
DEVIATIONS = [
    "Γ's last layer is linear (model.last_activation=none). With the paper's ReLU there, d = 1 dies.",
    "Adam at a rate of 1e-3. The paper names neither optimiser nor rate, and no regularisation.",
    "Every seed has a split of its own; the paper has one, unknown to us.",
    "Features go in raw, node attributes only.",
    "sort breaks ties by the columns before the last; left in input order, ties would make it depend on that order.",
    "The paper's 0.277 for QM9, d = 50, sort, permuted holdout may be a misprint of 0.227; it is counted as printed.",
]


def scorecard_section(findings: Findings) -> Section:
    paper = paper_numbers()
    ours = {kind: _number(findings, kind) for kind in paper}
    measured = [number for number in ours.values() if number]
    blocks: list[Block] = [
        f"{SOURCE} Of {len(paper)} numbers {len(measured)} are measured here; {count(measured)}.",
        "“Inside”: in the 95 % interval of our mean. “One more run”: in the wider interval where one more run of ours "
        "would fall 95 times of 100, the fairer question to a single run.",
        _summary(ours),
        _numbers(paper, ours),
        "Known deviations:",
        Items(DEVIATIONS),
    ]
    return Section("scorecard", "Does it match the paper?", blocks)


def count(measured: list[Number]) -> str:
    """How many lie inside, in words."""
    judged = [number for number in measured if number.inside is not None]
    if not judged:
        return "with a single seed there is no interval to hold them against"
    inside = sum(bool(number.inside) for number in judged)
    plausible = sum(bool(number.plausible) for number in judged)
    return f"{inside} lie inside our interval, {plausible} where one more run may fall"


def _number(findings: Findings, kind: Kind) -> Number | None:
    dataset, d, method, split, metric = kind
    return findings.numbers.get(((dataset, d, split, metric), method))


def _summary(ours: dict[Kind, Number | None]) -> Table:
    rows: list[list[Entry | str]] = []
    for method in PAPER_METHODS:
        numbers = [number for kind, number in ours.items() if kind[2] == method]
        judged = [number for number in numbers if number and number.inside is not None]
        apart = [number.estimate.mean - number.paper for number in numbers if number and number.paper is not None]
        rows.append(
            [
                method,
                f"{sum(number is not None for number in numbers)} of {len(numbers)}",
                f"{sum(bool(number.inside) for number in judged)}" if judged else "–",
                f"{sum(bool(number.plausible) for number in judged)}" if judged else "–",
                f"{sum(apart) / len(apart):+.3f}" if apart else "–",
                f"{max(map(abs, apart)):.3f}" if apart else "–",
            ]
        )
    header = ["method", "measured", "inside", "one more run", "mean of ours − paper", "furthest apart"]
    return Table("By method", header, rows)


def _numbers(paper: dict[Kind, float], ours: dict[Kind, Number | None]) -> Table:
    rows: list[list[Entry | str]] = []
    words = {True: "yes", False: "no", None: "–"}
    for kind, value in paper.items():
        dataset, d, method, split, metric = kind
        number = ours[kind]
        where = f"{pretty(dataset)}, {METRIC_NAMES[metric]}, d = {d}, {SPLITS[split]}"
        inside, plausible = (number.inside, number.plausible) if number else (None, None)
        mean = str(number.estimate) if number else "not measured"
        rows.append([where, method, f"{value:.3f}", mean, words[inside], words[plausible]])
    header = ["number", "method", "paper", "ours", "inside", "one more run"]
    return Table(f"All {len(paper)} numbers", header, rows, folded=True)
