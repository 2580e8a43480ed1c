"""Which methods differ from the best and from the paper's own, after correction, per data set."""

from permlab.platform.report.blocks import Block, Items
from permlab.platform.report.findings import Comparison, Findings, Place
from permlab.platform.report.significance import p_is
from permlab.platform.report.statistics import ALPHA, holm
from permlab.platform.report.tables import pretty, signed
from permlab.readouts.names import PAPER_METHODS
from permlab.tasks.metrics import higher_is_better, metric_label

REFERENCE = PAPER_METHODS[0]  # the method that the paper proposes: named before any run, not chosen by its score


def standings(findings: Findings, places: list[Place]) -> list[Block]:
    """A list per data set."""
    if not findings.testable:
        return [findings.why_no_test()]
    blocks: list[Block] = []
    for dataset in dict.fromkeys(place[0] for place in places):
        here = [place for place in places if place[0] == dataset]
        lines = [line for place in here for line in _from_best(findings, place, several=len(here) > 1)]
        lines += _from_reference(findings, here)
        blocks.append(Items(lines, f"{pretty(dataset)}: which differences are significant"))
    return blocks


def _from_best(findings: Findings, place: Place, several: bool) -> list[str]:
    numbers = {method: number for method in findings.sweep.methods if (number := findings.numbers.get((place, method)))}
    best = next((method for method, number in numbers.items() if number.best), None)
    if best is None:
        return []
    tests = [test for method in numbers if method != best and (test := findings.compare(place, best, method))]
    worse = [_other(test, best) for test in tests if test.significant]
    at = f" at d = {place[1]}" if several else ""
    found = findings.detectable(place)
    pairs = f" over all {found.pairs} pairs" if found else ""
    lines = [
        f"Best{at}: {best}, {metric_label(place[3])} {numbers[best].estimate}. After Holm's correction{pairs} "
        + (
            f"{len(worse)} of the {len(tests)} other methods differ significantly from it: {', '.join(worse)}."
            if worse
            else f"none of the {len(tests)} other methods differs significantly from it."
        )
    ]
    if found:
        lines.append(
            f"These seeds could detect a difference of {found.alone:.3f} between two methods alone, and of "
            f"{found.first:.3f} as the first of {found.pairs} pairs{at}."
        )
    return lines


def _from_reference(findings: Findings, places: list[Place]) -> list[str]:
    """One family: the reference against every other method at every d."""
    tests = [
        (place, test)
        for place in places
        for test in findings.comparisons.get(place, [])
        if REFERENCE in (test.first, test.second)
    ]
    if not tests:
        return []
    better: list[str] = []
    worse: list[str] = []
    for (place, test), p in zip(tests, holm([test.test.p for _, test in tests]), strict=True):
        if p < ALPHA:
            gain = test.test.difference * (-1 if test.first == REFERENCE else 1)
            at = f" at d = {place[1]}" if len(places) > 1 else ""
            told = f"{_other(test, REFERENCE)}{at} ({signed(gain)}, {p_is(p)})"
            (better if (gain > 0) == higher_is_better(place[3]) else worse).append(told)
    return [
        f"Against {REFERENCE}, the paper's method, with Holm's correction over these {len(tests)} tests only: better "
        f"{_told(better)}; worse {_told(worse)}; {len(tests) - len(better) - len(worse)} do not differ significantly."
    ]


def _other(test: Comparison, method: str) -> str:
    return test.second if test.first == method else test.first


def _told(methods: list[str]) -> str:
    return ", ".join(methods) or "none"
