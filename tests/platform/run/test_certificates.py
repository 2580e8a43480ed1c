"""Certificates of trained readouts, on the holdout's embeddings."""

import numpy as np
import pytest
import torch

from permlab.platform.run.certificates import measure_certificate, pairs_of_one_size
from permlab.platform.run.training import Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.readouts.catalogue import build

DATA = "dataset=synthetic,graphs=120,max_nodes=7,task=classification"


def training(*words: str) -> Training:
    return Training.prepare(read_settings(RunSettings, [DATA, "d=3", "threads=1", *words]))


def test_pairs_are_of_one_size_and_not_too_large() -> None:
    graphs, nodes = np.array([10, 11, 12, 13, 14, 15]), np.array([5, 7, 5, 500, 500, 7])
    assert pairs_of_one_size(graphs, nodes).tolist() == [[10, 12], [11, 15]]


@pytest.mark.parametrize("method", ["sum", "ordering", "sort", "kernels", "set2set", "identity", "augment"])
def test_the_error_tells_invariant_readouts_from_others(method: str) -> None:
    found = measure_certificate(training(f"method={method}"))
    invariant = build(method, 3, 7).permutation_invariant
    assert (found["invariance_error"] < 1e-12) == invariant  # measured in double precision
    assert 0 <= found["ratio_min"] <= found["ratio_median"] <= found["ratio_max"]
    assert found == measure_certificate(training(f"method={method}"))


def test_ratios_keep_to_the_theorem() -> None:
    """‖β_A(X) − β_A(Y)‖ ≤ ‖A‖ d(X, Y); A = [I | 1] and d = 3: ‖A‖ = 2."""
    ready = training("method=ordering")
    found = measure_certificate(ready)
    assert float(torch.linalg.matrix_norm(ready.task.model.readout.key.double(), 2)) == pytest.approx(2.0)
    assert 1.0 <= found["ratio_max"] <= 2.0 + 1e-5 and found["pairs"] > 10


def test_a_run_that_must_not_see_the_holdout_has_none() -> None:
    assert measure_certificate(training("data.validation=10")) == {}
