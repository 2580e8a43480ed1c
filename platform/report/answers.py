"""The questions that a sweep is run for, answered in one line each."""

from permlab.platform.report.blocks import Block, Items, Section
from permlab.platform.report.certificates import verdicts
from permlab.platform.report.findings import Findings, Place
from permlab.platform.report.overview import beside_the_paper
from permlab.platform.report.recipe import differences
from permlab.platform.report.results import Estimate
from permlab.platform.report.scorecard import compared, verdict
from permlab.platform.report.significance import p_is
from permlab.platform.report.statistics import LEAST_SEEDS, POWER
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty
from permlab.platform.report.tuning import gains_on_holdout
from permlab.tasks.metrics import higher_is_better, metric_label


def answers_section(findings: Findings) -> Section:
    blocks: list[Block] = []
    for dataset in findings.sweep.datasets:
        if told := differences(findings.sweep, dataset):
            blocks.append(Items(told, f"{pretty(dataset)}: what differs from the paper's recipe", recipe=True))
    for dataset in findings.sweep.datasets:
        blocks.append(Items(_answers(findings, dataset), pretty(dataset)))
        figure = beside_the_paper(findings, dataset)
        blocks += [figure] if figure else []
    return Section("answers", "In short", blocks)


def _answers(findings: Findings, dataset: str) -> list[str]:
    sweep, metric = findings.sweep, findings.sweep.headline(dataset)
    split = sweep.judged_by(dataset)
    if metric is None or split is None:
        return ["No cell has finished yet."]
    sign = 1 if higher_is_better(metric) else -1
    here = {
        (d, method): number.estimate
        for ((name, d, part, measured), method), number in findings.numbers.items()
        if (name, part, measured) == (dataset, split, metric)
    }
    enough = {place: estimate for place, estimate in here.items() if estimate.seeds >= LEAST_SEEDS} or here
    ranked = sorted(enough, key=lambda place: -sign * here[place].mean)
    d, best = ranked[0]
    label = f"{SPLITS[split]} {metric_label(metric)}"
    lines = [f"Best: {best} at d = {d}, {label} {here[d, best]} over {counted(here[d, best], sweep.unit(dataset))}."]
    left = [f"{method} at d = {width}" for width, method in here if (width, method) not in enough]
    if left:
        lines.append(f"Left out, with fewer than {LEAST_SEEDS} {sweep.unit(dataset)}: {', '.join(left)}.")
    rivals = [method for width, method in ranked if width == d and method != best]
    if rivals:
        lines.append(_margin(findings, (dataset, d, split, metric), best, rivals))
        lines += _detectable(findings, (dataset, d, split, metric), best, rivals[0])
    lines += _tuned(findings, dataset)
    lines += _permuted(findings, dataset, metric, sign) + verdicts(findings, dataset)
    numbers = compared(findings, dataset)
    if numbers:
        lines.append(f"The paper: {len(numbers)} of its numbers are measured here; {verdict(numbers)}.")
    return lines


def _margin(findings: Findings, place: tuple[str, int, str, str], best: str, rivals: list[str]) -> str:
    means = [findings.numbers[place, method].estimate.mean for method in (best, rivals[0])]
    by = f"By {abs(means[0] - means[1]):.3f} over {rivals[0]}, the next at d = {place[1]}"
    test = findings.compare(place, best, rivals[0])
    if test is None:
        reason = findings.why_no_test() or f"too few {findings.sweep.unit(place[0])} in common."
        return f"{by}; it is not known whether that is luck: {reason}"
    where = " on this one split" if findings.one_split(place[0]) else ""
    finding = f"significant{where}" if test.significant else f"not significant{where}"
    beaten = [method for method in rivals if (t := findings.compare(place, best, method)) and t.significant]
    luck = "" if test.significant else ", it may be luck"
    others = ", ".join(beaten) or "no other method"
    return f"{by}: {finding} (Holm's {p_is(test.p_holm)}){luck}. At this d {best} differs significantly from {others}."


def counted(estimate: Estimate, unit: str = "seeds") -> str:
    """As "5 seeds" or "1 fold"."""
    return f"{estimate.seeds} {unit if estimate.seeds > 1 else unit.removesuffix('s')}"


def _detectable(findings: Findings, place: Place, best: str, next_best: str) -> list[str]:
    """What the seeds or folds at hand could find: not significant is not the same as equal."""
    found = findings.detectable(place, (best, next_best))
    if found is None:
        return []
    corrected = f", {found.first:.3f} as the first of {found.pairs} pairs under Holm's correction" * (found.pairs > 1)
    unit = findings.sweep.unit(place[0])
    return [
        f"Between {best} and {next_best} these {unit} could detect a difference of {found.alone:.3f} (found in "
        f"{POWER:.0%} of repetitions{corrected}). A smaller one may exist: not significant is not equal."
    ]


def _tuned(findings: Findings, dataset: str) -> list[str]:
    """What tuning gained on the holdout, by method and d."""
    gains = [gain for gain in gains_on_holdout(findings.sweep) if gain.dataset == dataset]
    if not gains:
        return []
    parts = [f"{gain.method} at d = {gain.d} {gain.told}" for gain in gains]
    label = f"{SPLITS[gains[0].split]} {metric_label(gains[0].metric)}"
    return [f"Tuned against default settings, {label}: {'; '.join(parts)}."]


def _permuted(findings: Findings, dataset: str, metric: str, sign: int) -> list[str]:
    """How permuted nodes change each method: the largest change of the mean over d."""
    keep = findings.unchanged(dataset)
    losses: dict[str, float] = {}
    for (place, method), number in findings.numbers.items():
        permuted = findings.numbers.get(((dataset, place[1], "holdout_perm", metric), method))
        if (place[0], *place[2:]) == (dataset, "holdout", metric) and permuted and method not in keep:
            loss = sign * (number.estimate.mean - permuted.estimate.mean)
            losses[method] = max(losses.get(method, loss), loss, key=abs)
    parts = [f"{', '.join(keep)} keep{'s' * (len(keep) == 1)} every value"] if keep else []
    parts += [f"{method} {'loses' if loss > 0 else 'gains'} {abs(loss):.3f}" for method, loss in losses.items()]
    return [f"Permuted nodes: {'; '.join(parts)}."] if parts else []
