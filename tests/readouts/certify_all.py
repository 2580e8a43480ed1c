"""Certify every readout of the catalogue at all sizes n ≤ 8, d ≤ 3 that it takes: none of its facts may be refuted.

    python -m tests.readouts.certify_all [METHOD …]     one line per size; exit code 1 if anything is refuted

This takes about ten minutes on one core; the tests run only a few of the sizes.
"""

import sys
import time
from collections.abc import Iterator

import torch

from permlab.readouts.base import Readout
from permlab.readouts.catalogue import CATALOGUE, build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.theory.certificate import certify

Size = tuple[str, int, int]  # method, n, d


def sizes(methods: list[str]) -> Iterator[tuple[Size, Readout]]:
    for method in methods:
        for n, d in ((n, d) for d in (1, 2, 3) for n in range(1, 9)):
            try:
                yield (method, n, d), build(method, d=d, max_nodes=n)
            except ReadoutError:  # zeta0 and zeta1 take d = 2 only, power_sums d = 1
                continue


def main(methods: list[str]) -> int:
    torch.set_num_threads(1)
    refuted = count = 0
    for (method, n, d), readout in sizes(methods):
        started = time.perf_counter()
        certificate = certify(readout, n, steps=60, seconds=5)
        contradictions = certificate.contradictions(readout)
        refuted += bool(contradictions)
        count += 1
        witnesses = [name for name in ("collision", "unconfirmed", "jump") if getattr(certificate, name)]
        words = f"{method} n={n} d={d} ({time.perf_counter() - started:.0f} s) {' '.join(witnesses)}"
        print(words, contradictions or "", flush=True)  # noqa: T201
    print(f"{refuted} of {count} refuted")  # noqa: T201
    return 1 if refuted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(CATALOGUE)))
