"""Benchmarks on tiny settings: that both sides are the same model, and that the commands say what they measured."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.data import Batch

from permlab.platform.bench.plain_pyg import PlainModel, permuted_copies
from permlab.platform.bench.settings import ALONE
from permlab.platform.bench.sizes import SIZES, sizes_of
from permlab.platform.bench.sort import exponents
from permlab.platform.bench.sort_cell import draw, ways
from permlab.platform.bench.work import dense_flops
from permlab.platform.cli import main
from permlab.platform.config import RunSettings
from permlab.platform.trial import Trial
from permlab.readouts.names import PAPER_METHODS
from permlab.readouts.segments import flat_padded, segment_ids
from permlab.tasks.pyg import to_pyg

CLASSES = "synthetic,graphs=90,max_nodes=8,task=classification"


def both(method: str, dataset: str = CLASSES) -> tuple[Trial, PlainModel]:
    """A trial and the plain model with its weights, in double precision."""
    trial = Trial.prepare(RunSettings(dataset=dataset, method=method, d=3))
    plain = PlainModel(trial.settings, trial.task.model, trial.store.manifest)
    return trial, plain.double()


@pytest.mark.parametrize("dataset", [CLASSES, "synthetic,graphs=90,max_nodes=8"])
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_both_sides_have_the_same_loss(method: str, dataset: str) -> None:
    trial, plain = both(method, dataset)
    graphs = trial.data.split.train[:32]
    batch = trial.store.batch(graphs)
    ours = trial.task.loss(trial.task.model(batch), batch.y)
    sample = Batch.from_data_list(to_pyg(trial.store, graphs))
    sample.x = sample.x.double()
    theirs = plain.training_step(sample, 0)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    ours.backward()
    theirs.backward()
    for weight, conv in zip(trial.task.model.gcn.weights, plain.convs, strict=True):
        assert torch.allclose(weight.grad.double(), conv.lin.weight.grad.T, rtol=1e-3, atol=1e-5)


def test_permuted_copies_are_the_same_graphs() -> None:
    trial, plain = both("sum")
    graphs = to_pyg(trial.store, np.arange(5))
    copies = permuted_copies(graphs, 2, seed=0)
    assert len(copies) == 10
    for graph, copy in zip(graphs * 2, copies, strict=True):
        graph.x, copy.x = graph.x.double(), copy.x.double()
        pair = Batch.from_data_list([graph, copy])
        first, second = plain(pair)
        assert first.item() == pytest.approx(second.item(), rel=1e-9)
    assert any(not torch.equal(graph.x, copy.x) for graph, copy in zip(graphs * 2, copies, strict=True))


@pytest.mark.parametrize("method", ["sum", "identity", "ordering", "sort"])
def test_flops_are_those_that_torch_counts(method: str) -> None:
    """On graphs of one size, the largest, the plain way pads nothing either."""
    trial, plain = both(method)
    manifest = trial.store.manifest
    largest = np.flatnonzero(np.diff(trial.store.node_ptr) == manifest.max_nodes)
    sample = Batch.from_data_list(to_pyg(trial.store, largest))
    sample.x = sample.x.double()
    with FlopCounterMode(display=False) as counter:
        plain.training_step(sample, 0).backward()
    expected = dense_flops(trial.settings, manifest, len(largest), len(sample.x), 0)
    assert counter.get_total_flops() == expected


@pytest.mark.parametrize("method", ALONE)
def test_the_readouts_alone_agree(method: str) -> None:
    """Whatever the sides give, padded or not, holds the same numbers, and so do their gradients."""
    sizes = [3, 1, 7, 4]
    x, ptr = draw(sizes, d=3)
    found = {}
    for side, pool in ways(method, 3, sizes).items():
        if pool is None:
            continue
        leaf = x.clone().requires_grad_()
        out = pool(leaf, ptr if side == "ours" else segment_ids(ptr))
        if len(out) == len(x):
            out = flat_padded(out, ptr, max(sizes))
        out.square().sum().backward()
        found[side] = (out.detach(), leaf.grad)
    assert len(found) >= 2
    for out, gradient in found.values():
        assert torch.allclose(out, found["ours"][0], atol=1e-5)
        assert torch.allclose(gradient, found["ours"][1], atol=1e-4)


def test_sizes() -> None:
    assert {len(sizes_of(name)) for name in SIZES} == {128}
    assert sum(sizes_of("giant")) == sum(sizes_of("even")) and max(sizes_of("giant")) == 20_000
    assert min(sizes_of("proteins")) >= 4 and max(sizes_of("proteins")) == 620
    assert 35 <= np.mean(sizes_of("proteins")) <= 45


def test_growth_is_a_power() -> None:
    growth = [
        {"method": "sum", "axis": "B", "value": value, "ours": {"ms": 3 * value**1.5}, "padded": None, "pyg": None}
        for value in (1, 10, 100)
    ]
    assert exponents(growth) == [
        {"method": "sum", "axis": "B", "ours": pytest.approx(1.5), "padded": None, "pyg": None}
    ]


def test_sort_measures_three_sides(permlab, tmp_path: Path) -> None:
    words = ("method=[sort,ordering]", "d=1", "sizes=[giant,even]", "repeats=2", "growth=false", f"runs={tmp_path}")
    code, out, err = permlab("bench", "sort", *words)
    assert (code, err) == (0, "") and "over the same nodes spread evenly" in out
    result = json.loads((tmp_path / "bench" / "sort.json").read_text())
    assert [(row["sizes"], row["method"]) for row in result["rows"]] == list(
        product(("giant", "even"), ("sort", "ordering"))
    )
    for row in result["rows"]:
        assert row["padded_ratio"] == pytest.approx(row["padded"]["ms"] / row["ours"]["ms"])
        assert (row["pyg"] is None) == (row["method"] == "ordering")
    assert [row["method"] for row in result["giant"]] == ["sort", "ordering"]


def test_data_measures_both_sides(permlab, tmp_path: Path) -> None:
    words = (f"dataset={CLASSES}", "repeats=1", "batch_size=16", "workers=1", f"runs={tmp_path}")
    code, out, _ = permlab("bench", "data", *words, "--json")
    (row,) = json.loads(out)["rows"]
    assert code == 0 and row["graphs"] == 90
    assert row["ours_build_seconds"] > 0 and row["plain_build_seconds"] is None  # not of the TU collection
    assert row["batch_ratio"] == pytest.approx(row["plain_batch_ms"] / row["ours_batch_ms"])
    assert set(row["memory_mb"]) == {"ours", "plain"} and set(row["memory_mb"]["ours"]) == {"1"}


@pytest.mark.ray
def test_sweep_measures_what_is_not_training(permlab, one_ray: None, tmp_path: Path) -> None:
    code, out, _ = permlab("bench", "sweep", "cells=3", f"dataset={CLASSES}", "epochs=1", f"runs={tmp_path}", "--json")
    result = json.loads(out)
    assert code == 0 and result["empty"]["cells"] == 3 and result["grid"]["cells"] == 12
    assert result["grid"]["cells_seconds"] > 0 and 0 < result["grid"]["beyond_training"] < result["grid"]["seconds"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one real, tiny `permlab bench train`."""
    folder = tmp_path_factory.mktemp("bench")
    words = [f"dataset={CLASSES}", "method=[ordering,augment]", "d=2", "steps=4", "batch_size=8", "repeats=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(folder / "cache"))
        assert main(["bench", "train", *words, f"runs={folder}", "--json", "--picture", str(folder / "a.png")]) == 0
    return folder


def test_train_measures_both_sides(trained: Path) -> None:
    result = json.loads((trained / "bench" / "train.json").read_text())
    assert [(row["method"], row["d"]) for row in result["rows"]] == [("ordering", 2), ("augment", 2)]
    for row in result["rows"]:
        low, high = row["ratio_range"]
        assert 0 < row["ours_range"][0] <= row["ours_ms"] <= row["ours_range"][1]
        assert 0 < row["plain_range"][0] <= row["plain_ms"] <= row["plain_range"][1]
        assert low <= high and row["ratio"] == pytest.approx(row["plain_ms"] / row["ours_ms"])
        assert row["loss_difference"] < 1e-4
        assert row["mflop"] > 0 and row["mb"] > 0
        assert 3 <= row["steps"] <= 5
    assert {"cpu", "date", "threads", "load", "gemm_gflops", "copy_gb_s", "versions"} <= set(result["machine"])
    assert not (trained / "cells").exists()
    assert (trained / "a.png").stat().st_size > 1000


def test_a_stored_result_is_shown_and_drawn(permlab, trained: Path, tmp_path: Path) -> None:
    stored, picture = str(trained / "bench" / "train.json"), tmp_path / "speed.svg"
    code, out, err = permlab("bench", "train", "--from", stored, "--picture", str(picture))
    assert (code, err) == (0, "")
    assert "ordering" in out and "GFLOP/s" in out
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["flight"], "argument topic: invalid choice: 'flight' (choose from"),
        (["train", "method=polynomial"], "method=polynomial: unknown 'polynomial': choose from ordering, kernels"),
        (["train", "stepz=3"], "unknown setting stepz: did you mean steps? choose from runs"),
        (["train", "d=0"], "d.0=0: input should be greater than or equal to 1"),
        (["sort", "sizes=huge"], "sizes=huge: unknown 'huge': choose from constant, proteins, giant, even"),
        (["sort", "method=augment"], "choose from sort_columns, ordering"),
        (["data", "dataset=nope"], "nope"),
        (["sweep", "cells=-1"], "cells=-1: input should be greater than or equal to 0"),
        (["train", "dataset=nope"], "nope"),
        (["train", "threads=999"], "threads=999: this machine offers"),
        (["train", "--picture", "speed.gif"], "must end in .png or .svg"),
        (["train", "--picture", "nowhere/speed.png"], "there is no folder nowhere"),
        (["sweep", "--picture", "speed.png"], "--picture draws the ratios of train, not of sweep"),
        (["train", "--from", "nowhere.json"], "'nowhere.json' is no result of permlab bench train"),
        (["train", "d=1", "--from", "nowhere.json"], "d=1: a stored result takes no settings"),
    ],
)
def test_a_wrong_call_is_one_line(permlab, words: list[str], says: str) -> None:
    code, out, err = permlab("bench", *words)
    assert (code, out) == (2, "") and says in err and err.count("\n") == 1
