"""Certificates of a run's readout, on the holdout's embeddings."""

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
def test_exactly_the_invariant_readouts_have_no_error(method: str) -> None:
    certificate = measure_certificate(training(f"method={method}"))
    invariant = build(method, 3, 7).permutation_invariant
    assert (certificate["invariance_error"] < 1e-12) == invariant  # measured in double precision
    assert certificate["batch_error"] < 1e-12
    assert 0 <= certificate["ratio_min"] <= certificate["ratio_median"] <= certificate["ratio_max"]
    assert certificate == measure_certificate(training(f"method={method}"))


@pytest.mark.parametrize("method", ["pyg:GRUAggregation", "pyg:LSTMAggregation"])
def test_padding_does_not_hide_that_a_readout_sees_the_order(method: str) -> None:
    """A recurrent network reads the padding last and forgets the graph: in a batch it looks invariant."""
    large = ("dataset=synthetic,graphs=60,max_nodes=200", f"method={method}")
    certificate = measure_certificate(training(*large))
    assert certificate["invariance_error"] > 1e-3 and certificate["batch_error"] > 1e-3


def test_ratios_respect_the_theorem() -> None:
    """‖β_A(X) − β_A(Y)‖ ≤ ‖A‖ d(X, Y); A = [I | 1] and d = 3: ‖A‖ = 2."""
    prepared = training("method=ordering")
    certificate = measure_certificate(prepared)
    assert float(torch.linalg.matrix_norm(prepared.task.model.readout.key.double(), 2)) == pytest.approx(2.0)
    assert 1.0 <= certificate["ratio_max"] <= 2.0 + 1e-5 and certificate["pairs"] > 10


def test_the_gap_is_zero_where_two_graphs_have_one_image() -> None:
    """A key of no columns but zeros sends every graph to one vector; one that is universal separates them."""
    kept, lost = training("method=ordering"), training("method=ordering")
    lost.task.model.readout.key.zero_()
    lost.task.model.readout.appends_sum = False
    assert measure_certificate(lost)["gap"] == 0 < 1e-6 < measure_certificate(kept)["gap"] < 1


def test_graphs_that_the_backbone_made_equal_do_not_count() -> None:
    prepared = training("method=sum")
    for weight in prepared.task.model.backbone.parameters():
        weight.data.zero_()  # all embeddings are 0: graphs differ by their sizes alone
    assert measure_certificate(prepared)["gap"] == 0  # and a sum does not see the size


def test_a_run_that_must_not_see_the_holdout_has_none() -> None:
    assert measure_certificate(training("data.validation=10")) == {}
