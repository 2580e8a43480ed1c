"""Tables about keys: the fewest columns that suffice, and distortion."""

from math import isfinite, sqrt
from typing import Any

from rich.table import Table

from permlab.platform.display.console import out
from permlab.readouts.theory.distortion import Distortion
from permlab.readouts.theory.least import Least
from permlab.readouts.theory.weighted import Injectivity, integer_weights


def show_least(rows: list[Least]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("n", "d", "key", "least D", "n(d−1)+1", "1+(d−1)n!"):
        table.add_column(column, justify="right")
    for column in ("at that D", "at D − 1"):
        table.add_column(column)
    table.add_column("seconds", justify="right")
    for row in rows:
        least, below = row.least, row.below
        known = f"proved, {least.visited:,} subspaces" if least.universal else f"open after {least.visited:,} subspaces"
        refuted = f"refuted, {below.visited:,} subspaces" if below else "fewer than d columns"
        smallest = f"{'' if least.universal else '≥ '}{least.D}"
        key = "generic" if row.generic else f"seed={row.seed}"
        sizes = (row.n, row.d, key, smallest, row.enough, f"{row.theorem:,}")
        seconds = least.seconds + (below.seconds if below else 0)
        table.add_row(*map(str, sizes), known, refuted, f"{seconds:.1f}")
    out.print(
        "keys [I | Ã]: the smallest D universal for n rows. Generic: random modulo 2⁶¹ − 1; seeds: integers, exactly"
    )
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


GammaRow = tuple[int, int, int, int, Injectivity]  # n, d, m, seed


def show_gamma(rows: list[GammaRow]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("n", "d", "m", "2nd − d", "seed"):
        table.add_column(column, justify="right")
    table.add_column("injective")
    table.add_column("pairs of orders", justify="right")
    table.add_column("degenerate", justify="right")
    words = {True: "yes, decided", False: "no, a pair collides", None: "no collision found"}
    for n, d, m, seed, injectivity in rows:
        sizes = map(str, (n, d, m, 2 * n * d - d, seed))
        table.add_row(*sizes, words[injectivity.injective], f"{injectivity.pairs:,}", f"{injectivity.degenerate:,}")
    out.print("γ_{A,B}(X)_k = ⟨b_k, ↓(Xa_k)⟩, k ≤ m, with random integer weights, in exact arithmetic")
    out.print(table)


def gamma_document(n: int, d: int, m: int, seed: int, injectivity: Injectivity) -> dict[str, Any]:
    """As JSON, with the weights, so that a collision can be checked."""
    A, B = (weights.tolist() for weights in integer_weights(n, d, m, seed))
    pair = injectivity.pair and [[[str(entry) for entry in row] for row in matrix] for matrix in injectivity.pair]
    known = {name: getattr(injectivity, name) for name in ("injective", "pairs", "degenerate")} | {"pair": pair}
    return {"n": n, "d": d, "m": m, "seed": seed} | known | {"A": A, "B": B}
