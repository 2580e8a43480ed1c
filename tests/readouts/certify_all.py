"""Certify every readout of the catalogue at all sizes n ≤ 8, d ≤ 3 that it takes: none of its facts may be refuted, and
where it denies one, some size must show why.

    python -m tests.readouts.certify_all [METHOD …] [--n 1 3 5] [--d 2]     one line per size; exit code 1 if not so

All sizes take about an hour on one core; the tests run only a few of them.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator

import torch

from permlab.readouts.base import Readout
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.certificate import INVARIANT, certify

Size = tuple[str, int, int]  # method, n, d


def sizes(methods: list[str], rows: list[int], columns: list[int]) -> Iterator[tuple[Size, Readout]]:
    for method in methods:
        for n, d in ((n, d) for d in columns for n in rows):
            try:
                yield (method, n, d), build(method, d=d, max_nodes=n)
            except ReadoutError:  # zeta0 and zeta1 take d = 2 only, power_sums d = 1
                continue


def denied(readout: Readout) -> dict[str, bool]:
    """What a certificate should show, by what the readout says of itself."""
    return {
        "a collision": readout.injective == "no",
        "a jump or growth": readout.permutation_invariant and not readout.lipschitz,
        "another order of rows": not readout.permutation_invariant,
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(CATALOGUE))
    parser.add_argument("--n", nargs="*", type=int, default=list(range(1, 9)))
    parser.add_argument("--d", nargs="*", type=int, default=[1, 2, 3])
    asked = parser.parse_args(words)
    torch.set_num_threads(1)
    refuted = count = 0
    shown: dict[str, dict[str, bool]] = defaultdict(dict)
    for (method, n, d), readout in sizes(asked.methods, asked.n, asked.d):
        started = time.perf_counter()
        certificate = certify(readout, n, steps=60, seconds=5)
        contradictions = certificate.contradictions(readout)
        refuted += bool(contradictions)
        count += 1
        witnesses = [name for name in ("collision", "unconfirmed", "jump", "growth") if getattr(certificate, name)]
        found = {"a collision": "collision" in witnesses, "a jump or growth": bool({"jump", "growth"} & {*witnesses})}
        found["another order of rows"] = certificate.invariance_error > INVARIANT
        for fact, wanted in denied(readout).items():
            if wanted:
                shown[method][fact] = shown[method].get(fact, False) or found[fact]
        words_of_size = f"{method} n={n} d={d} ({time.perf_counter() - started:.0f} s) {' '.join(witnesses)}"
        print(words_of_size, contradictions or "", flush=True)  # noqa: T201
    missing = [
        f"{method}: no size shows {fact}" for method, facts in shown.items() for fact in facts if not facts[fact]
    ]
    print("\n".join([f"{refuted} of {count} refuted", *missing]))  # noqa: T201
    return 1 if refuted or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
