"""Search for what a readout keeps and loses, and say whether a key is universal.

  permlab certify METHOD [key=value …] --n N --d D      the extremes of ‖φ(X) − φ(Y)‖ / d(X, Y) over n × d matrices
  permlab certify ordering --n 3 --d 2 --key spark      … for a key: ones, identity, gaussian:D, spark, spark:D,
                                                        or its rows, as in 1,0,1;0,1,1
  permlab certify pyg:MedianAggregation --n 3 --d 2     … of anybody's aggregation: pyg:Class, file.py:Class, …
  permlab certify --minimal --n 2..5 --d 2..3 --seeds 3 the fewest columns at which generic and integer keys suffice
  permlab certify --distortion --n 2..6 --d 2           b₀/a₀ of several kinds of keys; with --picture FILE a plot
  permlab certify --gamma --n 2..3 --d 2                is γ_{A,B} injective with m = 2nd − d numbers? fewer: --m
  permlab certify --picture FILE                        the ratio over random pairs, one violin per method

A search proves no bounds, but its findings are facts: a collision is confirmed with as many digits as needed, a key is
refuted in rational arithmetic, a jump remains as the pair shrinks. Exit code 1: a finding refutes the readout's facts.
"""

import argparse
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from permlab.platform.display.console import err, out, print_json, progress_bar
from permlab.platform.display.key_tables import gamma_document, show_distortion, show_gamma, show_least
from permlab.platform.run.certify import certify_method
from permlab.platform.run.process_settings import process_for_runs
from permlab.platform.sweep.proofs import Runner, in_this_process, kept
from permlab.readouts.base import stated_facts
from permlab.readouts.checks import check_size
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.certificate import SAMPLES, Certificate
from permlab.readouts.theory.distortion import DRAWN, KINDS, Distortion, Question, answer, key_size
from permlab.readouts.theory.keys import Universality, full_spark_size, universal_size
from permlab.readouts.theory.least import Least, check_least, least_columns, run_piece
from permlab.readouts.theory.search import Pair
from permlab.readouts.theory.weighted import decide_or_search


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="METHOD",
        help="a name of `permlab readouts` or a plug-in, and its key=value options",
    )
    parser.add_argument("--n", help="rows of the matrices; with --minimal or --distortion a range such as 2..5")
    parser.add_argument("--d", help="columns of the matrices; with --minimal a range such as 2..3")
    parser.add_argument("--key", help="the key A of ordering or reduced (default: its own)")
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"pairs to try (default {SAMPLES})")
    parser.add_argument("--steps", type=int, default=300, help="steps of gradient search, each way (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="of pairs, keys and weights (default 0)")
    parser.add_argument("--budget", type=int, default=20_000, help="subspaces to try for universality (default 20000)")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="time for universality: each key, each piece (default 120)"
    )
    parser.add_argument("--minimal", action="store_true", help="find the smallest universal D of integer keys")
    parser.add_argument("--distortion", action="store_true", help="bound b₀/a₀ of several kinds of keys")
    parser.add_argument("--gamma", action="store_true", help="decide, or search, whether γ_{A,B} is injective")
    parser.add_argument("--m", type=int, help="numbers of γ_{A,B} (default 2nd − d)")
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        help="keys of each size: --seed, --seed + 1, … (default 1; 0 leaves the generic one of --minimal)",
    )
    parser.add_argument("--columns", type=int, help="D of the keys of --distortion (default (d−1)⌊(n+1)²/4⌋ + 1)")
    parser.add_argument("--ray", action="store_true", help="run the parts of --minimal or --distortion as tasks of Ray")
    parser.add_argument("--address", help="of a Ray cluster (default: RAY_ADDRESS, else this machine)")
    parser.add_argument("--runs", default="runs", help="folder of what is done already, to resume (default runs)")
    parser.add_argument("--picture", metavar="FILE", help="draw the ratios of several methods (PNG or SVG)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    if args.picture and not args.distortion:
        from permlab.platform.display.ratio_picture import draw

        draw(args.picture, samples=args.samples, seed=args.seed)
        out.print(args.picture, markup=False)
        return 0
    if args.n is None or args.d is None:
        err.print("permlab certify: --n and --d are needed: permlab certify ordering --n 3 --d 2")
        return 2
    check_size("--seed", args.seed, least=0)
    check_size("--seeds", args.seeds, least=0 if args.minimal else 1, most=1000)
    if args.minimal:
        return _minimal(args)
    if args.distortion:
        return _distortion(args)
    if args.gamma:
        return _gamma(args)
    if not args.words:
        err.print("permlab certify: which readout? See: permlab readouts")
        return 2
    method, *settings = args.words
    n, d = _one("--n", args.n), _one("--d", args.d)
    options = dict(_setting(word) for word in settings)
    search = {name: getattr(args, name) for name in ("key", "samples", "steps", "seed", "budget", "seconds")}
    readout, certificate = certify_method(method, n, d, **search, **options)
    contradictions = certificate.contradictions(readout)
    if args.json:
        stated = {"states": stated_facts(readout) or None, "contradictions": contradictions}
        print_json({"method": method} | _document(certificate) | stated)
    else:
        _show(method, readout, certificate, contradictions)
    return 1 if contradictions else 0


def _range(name: str, text: str) -> range:
    first, dots, last = text.partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()) or len(text) > 12:
        raise ReadoutError(f"{name} is {text!r}; it must be a number such as 3, or with --minimal a range such as 2..5")
    check_size(name, max(int(first), int(last or 0)), most=1000)
    sizes = range(int(first), int(last if dots else first) + 1)
    if not sizes or sizes[0] < 1:
        raise ReadoutError(f"{name} is {text!r}; it must be at least 1, and a range must ascend")
    return sizes


def _one(name: str, text: str) -> int:
    sizes = _range(name, text)
    if len(sizes) != 1:
        raise ReadoutError(f"{name} is {text}; a range needs --minimal")
    return sizes[0]


def _setting(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals:
        raise ReadoutError(f"{word!r} is not an option of the form key=value, such as kernels=200")
    try:
        return name, json.loads(value.lower())
    except (ValueError, RecursionError):  # not JSON, or nested too deeply for Python
        return name, value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _pair(pair: Pair | None) -> dict[str, Any] | None:
    if pair is None:
        return None
    numbers = {"distance": pair.distance, "moved": pair.moved, "ratio": pair.ratio}
    return numbers | {"X": pair.X.tolist(), "Y": pair.Y.tolist()}


def _verdict(result: Universality | None) -> dict[str, Any] | None:
    if result is None:
        return None
    document: dict[str, Any] = {"universal": result.universal, "D": result.D, "visited": result.visited}
    document |= {"full_spark": full_spark_size(result.d, result.n), "theorem": universal_size(result.d, result.n)}
    document |= {"gap": [_finite(value) for value in result.gap], "rounded": result.rounded, "reason": result.reason}
    document |= {name: m if m is None else m.tolist() for name, m in (("X", result.X), ("Y", result.Y))}
    return document | {"exact": result.exact and [[list(map(str, row)) for row in matrix] for matrix in result.exact]}


def _document(certificate: Certificate) -> dict[str, Any]:
    ways = {"sampling": certificate.sampling, "gradient": certificate.gradient}
    return {
        "n": certificate.n,
        "d": certificate.d,
        "m": certificate.m,
        "invariance_error": certificate.invariance_error,
        "ratio": {
            way: {"smallest": _pair(search.smallest), "largest": _pair(search.largest), "pairs": search.pairs}
            for way, search in ways.items()
        }
        | {"theorem": {"smallest": certificate.lower, "largest": certificate.upper}},
        "collision": _pair(certificate.collision),
        "unconfirmed": _pair(certificate.unconfirmed),
        "jump": _pair(certificate.jump),
        "growth": _pair(certificate.growth),
        "universality": _verdict(certificate.universality),
    }


def _show(method: str, readout: Aggregation, certificate: Certificate, contradictions: list[str]) -> None:
    out.print(
        f"[bold]{escape(method)}[/bold]  {getattr(readout, 'formula', '')}   "
        f"n = {certificate.n}, d = {certificate.d}, m = {certificate.m}"
    )
    ratios = Table("‖φ(X) − φ(Y)‖ / d(X, Y)", box=None, pad_edge=False, header_style="bold")
    ratios.add_column("smallest", justify="right")
    ratios.add_column("largest", justify="right")
    for way, search in (("sampled pairs", certificate.sampling), ("paths by gradient", certificate.gradient)):
        ratios.add_row(f"{search.pairs:,} {way}", f"{search.smallest.ratio:.4g}", f"{search.largest.ratio:.4g}")
    bounds = (f"{bound:.4g}" if bound else "none" for bound in (certificate.lower, certificate.upper))
    ratios.add_row("proved bound", *bounds)
    out.print(ratios)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("[bold]invariance[/bold]", f"error {certificate.invariance_error:.1e} under row permutations")
    facts.add_row("[bold]continuity[/bold]", _continuity(certificate))
    facts.add_row("[bold]injectivity[/bold]", _injectivity(certificate))
    if certificate.universality:
        facts.add_row("[bold]universal[/bold]", _universal(certificate.universality))
        facts.add_row("[bold]columns[/bold]", _columns(certificate.universality))
    facts.add_row("[bold]states[/bold]", _stated(readout, contradictions))
    out.print(facts)
    if certificate.collision and certificate.n <= 8 and certificate.d <= 3:
        _show_matrices(certificate.collision.X, certificate.collision.Y)
    elif certificate.collision:
        out.print("The two matrices are in the output of --json.")
    for contradiction in contradictions:
        err.print(f"permlab certify: the search refutes what {method} states: {contradiction}", markup=False)


def _stated(readout: Aggregation, contradictions: list[str]) -> str:
    """The verdict against the facts that the readout states."""
    words = {True: "yes", False: "no"}
    facts = [f"{name.replace('_', ' ')}: {words.get(value, value)}" for name, value in stated_facts(readout).items()]
    if not facts:
        return "none of the facts above"
    return f"{', '.join(facts)}; {f'{len(contradictions)} refuted' if contradictions else 'none refuted'}"


def _continuity(certificate: Certificate) -> str:
    jump = certificate.jump
    if jump is None and certificate.growth:
        return (
            f"no jump found; ratios grow with the matrices, to {certificate.growth.ratio:.3g} at 10⁴ times their size"
        )
    if jump is None:
        return "no jump found"
    return f"not continuous: inputs {jump.distance:.1e} apart, outputs {jump.moved:.3g} apart"


def _injectivity(certificate: Certificate) -> str:
    collision, near = certificate.collision, certificate.unconfirmed
    if collision:
        return f"collision: inputs {collision.distance:.3g} apart, outputs {collision.moved:.1e} apart"
    if near:
        return f"no collision confirmed; inputs {near.distance:.3g} apart, outputs {near.moved:.1e} apart in float64"
    return "no collision found"


def _universal(result: Universality) -> str:
    if result.universal is None:
        return f"not decided: {result.reason}"
    if result.universal:
        how = "" if result.rounded else " in exact arithmetic"
        proof = f"proved with {result.visited:,} subspaces{how}" if result.visited else result.reason
        return f"yes, {proof}"
    return f"no, found after {result.visited:,} subspaces"


def _columns(result: Universality) -> str:
    enough, theorem = full_spark_size(result.d, result.n), universal_size(result.d, result.n)
    return f"D = {result.D}; full spark and n(d−1)+1 = {enough} are enough (Theorem 3.9: 1+(d−1)n! = {theorem:,})"


def _show_matrices(X: Tensor, Y: Tensor) -> None:
    grid = Table.grid(padding=(0, 1))
    for row, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
        middle = row == (len(X) - 1) // 2
        numbers = ["".join(f"{value:10.4g}" for value in values) for values in (x, y)]
        grid.add_row("X =" if middle else "", f"│{numbers[0]} │", "  Y =" if middle else "", f"│{numbers[1]} │")
    out.print(grid)


@contextmanager
def _runner(args: argparse.Namespace) -> Iterator[Runner]:
    """In this process with one thread, or Ray."""
    if args.ray:
        from permlab.platform.sweep.ray_map import mapping

        with mapping(args.address) as runner:
            yield runner
    else:
        with process_for_runs(threads=1):
            yield in_this_process


def _minimal(args: argparse.Namespace) -> int:
    """For every n and d the smallest D at which a generic key is universal, and the integer key of every seed."""
    sizes = [(n, d) for d in _range("--d", args.d) for n in _range("--n", args.n)]
    for n, d in sizes:
        check_least(n, d)
    folder, search = Path(args.runs) / "least", partial(run_piece, seconds=args.seconds)
    rows: list[Least] = []
    with _runner(args) as runner, progress_bar("least D", "keys") as report:
        keys = [(args.seed, True), *((args.seed + i, False) for i in range(args.seeds))]
        for n, d in sizes:
            for seed, generic in keys:
                report(len(rows), len(sizes) * len(keys))
                rows.append(least_columns(n, d, seed, generic, lambda pieces: kept(folder, search, pieces, runner)))
    if args.json:
        print_json([row.document for row in rows])
    else:
        show_least(rows)
    return 0


def _distortion(args: argparse.Namespace) -> int:
    """For every n, kind of key and seed, what is known of b₀/a₀."""
    sizes, d = _range("--n", args.n), _one("--d", args.d)
    check_size("the largest D", args.columns or key_size(sizes[-1], d), least=d, most=100)
    questions = [
        Question(kind, n, d, args.columns, args.seed + i, args.seconds, args.steps)
        for n in sizes
        for kind in KINDS
        for i in range(args.seeds if kind in DRAWN else 1)
    ]
    rows: list[Distortion] = []
    with _runner(args) as runner, progress_bar("distortion", "keys") as report:
        for document in kept(Path(args.runs) / "distortion", answer, questions, runner):
            rows.append(Distortion.of(document))
            report(len(rows), len(questions))
    rows.sort(key=lambda row: (row.n, list(KINDS).index(row.kind)))
    if args.picture:
        from permlab.platform.display.distortion_picture import draw

        draw(args.picture, rows)
    if args.json:
        print_json(
            [row.document | {"at_least": _finite(row.at_least), "at_most": _finite(row.at_most)} for row in rows]
        )
    else:
        show_distortion(rows)
    return 0


def _gamma(args: argparse.Namespace) -> int:
    """For every n and seed: does γ_{A,B} with random integer weights collide?"""
    sizes, d = _range("--n", args.n), _one("--d", args.d)
    check_size("--samples", args.samples, least=6, most=1_000_000)
    rows = []
    for n in sizes:
        m = 2 * n * d - d if args.m is None else args.m
        for seed in range(args.seed, args.seed + args.seeds):
            with progress_bar(f"n = {n}", "pairs of orders") as report:
                rows.append((n, d, m, seed, decide_or_search(n, d, m, seed, args.samples, report)))
    if args.json:
        print_json([gamma_document(*row) for row in rows])
    else:
        show_gamma(rows)
    return 0
