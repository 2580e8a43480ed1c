"""Build a readout by its name and search for what it keeps and loses."""

from typing import Any

from permlab.platform.display.console import progress_bar
from permlab.platform.run.process_settings import process_for_runs
from permlab.readouts.base import Readout
from permlab.readouts.catalogue import build
from permlab.readouts.checks import check_size
from permlab.readouts.theory.certificate import Certificate, certify
from permlab.readouts.theory.keys import parse_key


def certify_method(
    method: str,
    n: int,
    d: int,
    *,
    key: str | None = None,
    samples: int = 3000,
    steps: int = 300,
    seed: int = 0,
    budget: int = 20_000,
    seconds: float = 120.0,
    **options: Any,
) -> tuple[Readout, Certificate]:
    """The readout on n × d matrices and its certificate. `key` as `permlab certify --key`; options: the readout's."""
    check_size("n", n, most=1000)
    check_size("d", d, most=1000)
    check_size("samples × n × d", samples * n * d, most=100_000_000)
    if key is not None:
        options["key"] = parse_key(key, d, n, seed)
    readout = build(method, d=d, max_nodes=n, seed=seed, **options)
    # one thread is fastest for small matrices, and gives the same numbers everywhere
    with process_for_runs(threads=1), progress_bar(f"certifying {method}", "steps") as progress:
        return readout, certify(readout, n, samples, steps, seed, budget, seconds, progress)
