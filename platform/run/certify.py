"""Build a readout by its name and search for what it keeps and loses."""

from typing import Any

import torch
from torch_geometric.nn.aggr import Aggregation

from permlab.platform.display.console import progress_bar
from permlab.platform.plugins.code import load, register
from permlab.platform.plugins.names import codes_among
from permlab.platform.plugins.resolve import readout_named
from permlab.platform.run.process_settings import process_for_runs
from permlab.platform.settings.kinds import method_name
from permlab.readouts.catalogue import build
from permlab.readouts.checks import check_size
from permlab.readouts.theory.certificate import SAMPLES, Certificate, certify
from permlab.readouts.theory.keys import parse_key


def certify_method(
    method: Any,
    n: int,
    d: int,
    *,
    key: str | None = None,
    samples: int = SAMPLES,
    steps: int = 300,
    seed: int = 0,
    budget: int = 20_000,
    seconds: float = 120.0,
    **options: Any,
) -> tuple[Aggregation, Certificate]:
    """The readout on n × d matrices and its certificate: a name, a class or an object. `key` as in `permlab certify
    --key`; options: the readout's.
    """
    check_size("n", n, most=1000)
    check_size("d", d, most=1000)
    check_size("samples × n × d", samples * n * d, most=100_000_000)
    if key is not None:
        options["key"] = parse_key(key, d, n, seed)
    name = method_name(method if isinstance(method, str) else register(method))
    for head in codes_among([name]):
        load(head)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made_by, carried = readout_named(name)
        readout = build(made_by, d=d, max_nodes=n, seed=seed, **carried | options)
    # one thread is fastest for small matrices, and gives the same numbers everywhere
    with process_for_runs(threads=1), progress_bar(f"certifying {name}", "steps") as progress:
        return readout, certify(readout, n, samples, steps, seed, budget, seconds, progress)
