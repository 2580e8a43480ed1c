"""The fitted recipe on the page: its distance against the default's, what mattered, and what one recipe gives up."""

from typing import Any

from permlab.platform.report.blocks import Block, Entry, Items, Section, Table
from permlab.platform.report.stored import SPLITS
from permlab.platform.report.tables import pretty
from permlab.platform.reproduce.distance import as_text

HOW = (
    "A trial trains every cell of its grid with one recipe and measures the training graphs alone. Its value is the "
    "distance to the paper's training columns: the root mean square of (ours − paper) / s over metrics and cells, s "
    "the standard deviation of the paper's numbers of this metric. 0 is the paper itself."
)
CLOSER = 0.8  # a method's own best recipe counts as another one if its distance is below this share of the joint one's


def search_section(searches: list[dict[str, Any]]) -> Section | None:
    if not searches:
        return None
    blocks: list[Block] = [HOW]
    for search in searches:
        blocks += _search(search)
    return Section("recipe", "The recipe", blocks)


def _search(search: dict[str, Any]) -> list[Block]:
    trials = {row["number"]: row for row in search["trials"] if row["value"] is not None}  # pruned: not all cells
    best, default = trials.get(search["best"]), trials.get(0)
    told = (
        f"{pretty(search['dataset'])}, search {search['name']}: {search['finished']} trials, {search['pruned']} "
        f"pruned, {search['seconds'] / 3600:.1f} hours of trials, over {search['method']} at d = {search['d']}."
    )
    if best is None:
        return [f"{told} No trial was completed."]
    rows: list[list[Entry | str]] = []
    for split in ("train", "holdout", "holdout_perm"):
        pair = [search["outcome"].get(name, {}).get(split) for name in ("default", "fitted")]
        for part in dict.fromkeys(name for distances in pair if distances for name in distances):
            where = f"{SPLITS[split]}, {'all methods' if part == 'all' else part}"
            rows.append([where, *(as_text(distances.get(part) if distances else None) for distances in pair)])
    if search["outcome"]:
        told += " The search did not use the holdout columns."
    blocks: list[Block] = [told, Items([f"{name} = {_short(value)}" for name, value in best["values"].items()])]
    if rows:
        blocks.append(Table("Distance to the paper", ["", "default", "fitted"], rows))
    if search["importances"]:
        shares: list[list[Entry | str]] = [[name, f"{share:.0%}"] for name, share in search["importances"].items()]
        blocks.append(Table("Importance (PED-ANOVA)", ["part of the recipe", "share"], shares))
    return [*blocks, *_trade_off(trials, best, default)]


def _trade_off(trials: dict[int, Any], best: dict[str, Any], default: dict[str, Any] | None) -> list[Block]:
    """For every method the distance with the joint recipe, and with the recipe that is best for it alone."""
    rows: list[list[Entry | str]] = []
    better = []
    for method, joint in best["by_method"].items():
        number, alone = min(
            ((n, row["by_method"][method]) for n, row in trials.items() if method in row["by_method"]),
            key=lambda pair: pair[1],
        )
        if alone < CLOSER * joint:
            better.append(method)
        before = None if default is None else default["by_method"].get(method)
        rows.append([method, as_text(before), as_text(joint), as_text(alone), f"trial {number}"])
    told = (
        f"In the best of {len(trials)} trials for it alone, an optimistic choice, {', '.join(better) or 'no method'} "
        f"come{'s' * (len(better) < 2)} closer to the paper by a fifth or more."
    )
    header = ["method", "default", "best recipe for all", "best for this method", "which is"]
    return [told, Table("Training columns: one recipe for all, or one for each", header, rows)]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
