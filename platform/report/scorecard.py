"""The reproduction scorecard: each of the paper's numbers beside ours."""

from permlab.platform.report.blocks import Block, Entry, Section, Table
from permlab.platform.report.findings import Findings, Number
from permlab.platform.report.results import Kind, paper_numbers
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty, signed
from permlab.readouts.names import PAPER_METHODS, facts_of
from permlab.tasks.metrics import metric_label

SOURCE = (
    "The paper: R. Balan, N. Haghani, M. Singh, “Permutation Invariant Representations with Applications to Graph Deep "
    "Learning”, appendix, 16 tables. Each of its numbers is a single run."
)
HOW = (
    "“Inside”: in the interval in which one more run of ours falls 95 times in 100 (mean ± t·s·√(1 + 1/n)). "
    "Even in a perfect reproduction 5 % would lie outside. Permuted nodes do not change an invariant method, so its "
    "permuted holdout equals its holdout and is not counted again. One of those in the paper, 0.277 for sort on "
    "QM9 at d = 50, may be a misprint of 0.227."
)


def scorecard_section(findings: Findings) -> Section:
    paper = paper_numbers()
    ours = {kind: _number(findings, kind) for kind in paper}
    counted = [kind for kind in paper if not repeated(kind)]
    measured = [number for kind in counted if (number := ours[kind])]
    blocks: list[Block] = [
        f"{SOURCE} Of its {len(paper)} numbers {len(counted)} count, and {len(measured)} of these are measured here; "
        f"{verdict(measured)}. What differs from the paper's recipe is listed at the top.",
        HOW,
        _summary(ours),
        _numbers(paper, ours),
    ]
    return Section("scorecard", "Does it match the paper?", blocks)


def repeated(kind: Kind) -> bool:
    """Whether it is the permuted holdout of an invariant method: the same number as its holdout."""
    _, _, method, split, _ = kind
    return split == "holdout_perm" and facts_of(method).invariant


def compared(findings: Findings, dataset: str) -> list[Number]:
    """The numbers of a data set that the paper has too, each counted once."""
    return [
        number
        for ((name, d, split, metric), method), number in findings.numbers.items()
        if name == dataset and number.paper is not None and not repeated((name, d, method, split, metric))
    ]


def verdict(measured: list[Number]) -> str:
    """How many of the paper's numbers lie inside, in words."""
    judged = [number for number in measured if number.inside is not None]
    if judged:
        return f"{sum(bool(number.inside) for number in judged)} lie where one more run of ours may fall"
    if any(number.estimate.seeds > 1 for number in measured):
        return "all seeds share one split, so there is no interval for a run on the paper's split"
    return "with a single run there is no interval to compare them with"


def _number(findings: Findings, kind: Kind) -> Number | None:
    dataset, d, method, split, metric = kind
    return findings.numbers.get(((dataset, d, split, metric), method))


def _summary(ours: dict[Kind, Number | None]) -> Table:
    rows: list[list[Entry | str]] = []
    for method in PAPER_METHODS:
        numbers = [number for kind, number in ours.items() if kind[2] == method and not repeated(kind)]
        judged = [number for number in numbers if number and number.inside is not None]
        apart = [number.estimate.mean - number.paper for number in numbers if number and number.paper is not None]
        rows.append(
            [
                method,
                f"{sum(number is not None for number in numbers)} of {len(numbers)}",
                f"{sum(bool(number.inside) for number in judged)} of {len(judged)}" if judged else "–",
                signed(sum(apart) / len(apart)) if apart else "–",
                f"{max(map(abs, apart)):.3f}" if apart else "–",
            ]
        )
    return Table("By method", ["method", "measured", "inside", "mean of ours − paper", "furthest apart"], rows)


def _numbers(paper: dict[Kind, float], ours: dict[Kind, Number | None]) -> Table:
    rows: list[list[Entry | str]] = []
    words = {True: "yes", False: "no", None: "–"}
    for kind, value in paper.items():
        dataset, d, method, split, metric = kind
        number = ours[kind]
        where = f"{pretty(dataset)}, {metric_label(metric)}, d = {d}, {SPLITS[split]}"
        inside = "as the holdout" if repeated(kind) else words[number.inside if number else None]
        rows.append([where, method, f"{value:.3f}", str(number.estimate) if number else "not measured", inside])
    header = ["number", "method", "paper", "ours", "inside"]
    return Table(f"All {len(paper)} numbers", header, rows, folded=True)
