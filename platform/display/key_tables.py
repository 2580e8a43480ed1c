"""Tables about keys: the fewest columns that suffice, and distortion."""

from math import isfinite, sqrt

from rich.table import Table

from permlab.platform.display.console import out
from permlab.readouts.theory.distortion import Distortion
from permlab.readouts.theory.least import Least


def show_least(rows: list[Least]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("n", "d", "seed", "least D", "n(d−1)+1", "1+(d−1)n!"):
        table.add_column(column, justify="right")
    for column in ("at that D", "at D − 1"):
        table.add_column(column)
    table.add_column("seconds", justify="right")
    for row in rows:
        least, below = row.least, row.below
        known = f"proved, {least.visited:,} subspaces" if least.universal else f"open after {least.visited:,} subspaces"
        refuted = f"refuted, {below.visited:,} subspaces" if below else "fewer than d columns"
        smallest = f"{'' if least.universal else '≥ '}{least.D}"
        sizes = (row.n, row.d, row.seed, smallest, row.enough, f"{row.theorem:,}")
        seconds = least.seconds + (below.seconds if below else 0)
        table.add_row(*map(str, sizes), known, refuted, f"{seconds:.1f}")
    out.print("keys [I | Ã] of random integers: the smallest D universal for n rows, in exact arithmetic")
    out.print(table)


def show_distortion(rows: list[Distortion]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("n", justify="right")
    table.add_column("key")
    for column in ("D", "a₀ ≥", "smallest", "largest", "b₀ = s₁(A)", "b₀/a₀", "√n", "n²"):
        table.add_column(column, justify="right")
    table.add_column("a₀ proved by")
    for row in rows:
        ratios = (f"{value:.4f}" for value in (row.certified, row.smallest, row.largest, row.b0))
        table.add_row(
            str(row.n),
            row.kind,
            str(row.key.shape[1]),
            *ratios,
            between(row),
            f"{sqrt(row.n):.2f}",
            str(row.n**2),
            row.proof,
        )
    out.print("‖β_A(X) − β_A(Y)‖ / d(X, Y): the bounds, and the ratios that were found")
    out.print(table)


def between(row: Distortion) -> str:
    """What is known of b₀/a₀: one number where both sides agree."""
    low, high = (f"{value:.3g}" if isfinite(value) else "∞" for value in (row.at_least, row.at_most))
    return low if low == high else f"{low} … {high}"
