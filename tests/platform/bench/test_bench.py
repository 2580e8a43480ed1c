"""Benchmarks on tiny settings: both sides are the same model, and the commands report what they measured."""

import importlib.util
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.data import Batch

from permlab.platform.bench.engine import gain_of
from permlab.platform.bench.plain_pyg import PlainModel, permuted_copies
from permlab.platform.bench.settings import ALONE, OfftrackBench, TrainBench
from permlab.platform.bench.sizes import SIZES, sizes_of
from permlab.platform.bench.sort import exponents
from permlab.platform.bench.sort_cell import draw, plain_operators, start, ways
from permlab.platform.bench.variants import VARIANTS
from permlab.platform.bench.work import dense_flops
from permlab.platform.bench.worker import Worker
from permlab.platform.cli import main
from permlab.platform.run.training import Training
from permlab.platform.settings.run import ModelSettings, RunSettings
from permlab.readouts.names import PAPER_METHODS
from permlab.readouts.segments import flat_padded, segment_ids
from permlab.tasks.dropout import Dropout
from permlab.tasks.pyg import to_pyg

CLASSES = "synthetic,graphs=90,max_nodes=8,task=classification"
two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


def both(method: str, dataset: str = CLASSES, **model: Any) -> tuple[Training, PlainModel]:
    """A training and the plain model with its weights, in double precision."""
    settings = RunSettings(dataset=dataset, method=method, d=3, model=ModelSettings(**model))
    training = Training.prepare(settings)
    training.task.model.double()
    return training, PlainModel(settings, training.task.model, training.store.manifest).double()


def both_losses(training: Training, plain: PlainModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Both losses on the same graphs, with the same dropout masks."""
    plain.dropout = Dropout(plain.dropout.p)  # PyTorch's own draws other masks
    graphs = training.data.split.train[:32]
    batch = training.store.batch(graphs)
    torch.manual_seed(0)
    ours = training.task.objective.loss(training.task.model(batch), batch.y)
    sample = Batch.from_data_list(to_pyg(training.store, graphs))
    sample.x, sample.y = sample.x.double(), sample.y.double()
    torch.manual_seed(0)
    return ours, plain.training_step(sample, 0)


@pytest.mark.parametrize("dataset", [CLASSES, "synthetic,graphs=90,max_nodes=8"])
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_both_sides_have_the_same_loss_and_gradients(method: str, dataset: str) -> None:
    training, plain = both(method, dataset)
    ours, theirs = both_losses(training, plain)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    ours.backward()
    theirs.backward()
    assert len(plain.convs) == 3
    for weight, conv in zip(training.task.model.backbone.weights, plain.convs, strict=True):
        assert weight.grad.abs().sum() > 0
        assert torch.allclose(weight.grad, conv.lin.weight.grad.T, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        {"dropout": 0.4},
        {"activation": "tanh", "last_activation": "elu"},
        {"hidden": 12, "head_hidden": 20},
        {"layers": 5, "head_layers": 2},
        {"layers": 1, "dropout": 0.2},
    ],
)
def test_the_plain_model_honours_the_settings_of_the_model(model: dict[str, Any]) -> None:
    training, plain = both("ordering", **model)
    ours, theirs = both_losses(training, plain)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert ours.item() != pytest.approx(both_losses(*both("ordering"))[0].item(), rel=1e-4)  # the settings matter


def test_permuted_copies_are_the_same_graphs() -> None:
    training, plain = both("sum")
    graphs = to_pyg(training.store, np.arange(5))
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
    """On graphs of the largest size even the plain model pads nothing."""
    training, plain = both(method)
    manifest = training.store.manifest
    largest = np.flatnonzero(np.diff(training.store.node_ptr) == manifest.max_nodes)
    sample = Batch.from_data_list(to_pyg(training.store, largest))
    sample.x = sample.x.double()
    with FlopCounterMode(display=False) as counter:
        plain.training_step(sample, 0).backward()
    expected = dense_flops(training.settings, manifest, len(largest), len(sample.x), 0)
    assert counter.get_total_flops() == expected


@pytest.mark.parametrize("method", ALONE)
def test_the_readouts_alone_agree(method: str) -> None:
    """All sides give the same numbers, padded or not, and the same gradients."""
    sizes = [3, 1, 7, 4]
    x, ptr = draw(sizes, d=3)
    results = {}
    for side, pool in ways(method, 3, sizes).items():
        if pool is None:
            continue
        leaf = x.clone().requires_grad_()
        out = pool(leaf, ptr if side in ("ours", "plain") else segment_ids(ptr, len(x)))
        if len(out) == len(x):
            out = flat_padded(out, ptr, max(sizes))
        out.square().sum().backward()
        results[side] = (out.detach(), leaf.grad)
    assert set(results) - {"ours", "plain"}
    for out, gradient in results.values():
        assert torch.allclose(out, results["ours"][0], atol=1e-5)
        assert torch.allclose(gradient, results["ours"][1], atol=1e-4)


def test_sizes() -> None:
    assert {len(sizes_of(name)) for name in SIZES} == {128}
    assert sum(sizes_of("giant")) == sum(sizes_of("even")) and max(sizes_of("giant")) == 20_000
    assert min(sizes_of("proteins")) >= 4 and max(sizes_of("proteins")) == 620
    assert 35 <= np.mean(sizes_of("proteins")) <= 45


def test_growth_is_a_power() -> None:
    absent = dict.fromkeys(("plain", "padded", "pyg"))
    growth = [
        {"method": "sum", "axis": "B", "value": value, "ours": {"ms": 3 * value**1.5}} | absent
        for value in (1, 10, 100)
    ]
    assert exponents(growth) == [{"method": "sum", "axis": "B", "ours": pytest.approx(1.5)} | absent]


def test_a_part_gains_what_its_absence_costs() -> None:
    rows = [
        {"dataset": dataset, "method": "sum", "d": d, "gain": {"early": gain}}
        for dataset, d, gain in (("a", 1, 2.0), ("a", 2, 0.5), ("b", 1, 8.0))
    ]
    assert gain_of("early", rows) == {
        "part": "early",
        "mean": pytest.approx(2.0),
        "by_dataset": {"a": pytest.approx(1.0), "b": pytest.approx(8.0)},
        "least": 0.5,
        "least_at": "a sum d=2",
        "most": 8.0,
        "most_at": "b sum d=1",
    }


def test_the_plain_side_of_sort_runs_the_definitions() -> None:
    pytest.importorskip("numba")
    start()
    x, ptr = draw([5, 9], d=3)

    def sorts() -> bool:
        with torch.profiler.profile() as profile:
            ours = ways("sort_columns", 3, [5, 9])["ours"]
            assert ours is not None
            ours(x, ptr)
        return any("sort" in event.key and "aten" in event.key for event in profile.key_averages())

    assert not sorts()
    with plain_operators():
        assert sorts()
    assert not sorts()


@two_cores
def test_a_variant_changes_what_it_says() -> None:
    bench = OfftrackBench(model=ModelSettings(head_layers=2), d=[4])
    changed = bench.changed(VARIANTS["wide"])
    assert changed.model == ModelSettings(hidden=128, head_hidden=256, head_layers=2)
    assert (changed.d, changed.method) == ([4], ["sum", "ordering", "kernels"])
    assert bench.changed(VARIANTS["threads"]).threads == 2


def test_a_cpu_without_avx512_has_none_on_either_side() -> None:
    pytest.importorskip("numba")
    environment = os.environ | VARIANTS["avx2"].environment
    program = """
import numba, numpy, torch
@numba.njit(fastmath=True)
def double(x):
    for i in range(len(x)):
        x[i] += x[i]
double(numpy.ones(64, dtype=numpy.float32))
print(torch.backends.cpu.get_cpu_capability(), "zmm" in str(double.inspect_asm()))
"""
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    instructions, wide = done.stdout.split()
    assert instructions != "AVX512" and wide == "False"


def test_a_worker_gets_its_environment() -> None:
    with Worker(1, {"ATEN_CPU_CAPABILITY": "default"}) as worker:
        limits = worker.call("machine.limits", size=8, megabytes=1, seconds=0.01)
    assert limits["instructions"] == "DEFAULT"


def test_sort_measures_four_sides(permlab, tmp_path: Path) -> None:
    words = ("method=[sort,ordering]", "d=1", "sizes=[giant,even]", "repeats=2", "growth=false", f"runs={tmp_path}")
    code, out, err = permlab("bench", "sort", *words)
    assert (code, err) == (0, "") and "spread evenly" in out
    result = json.loads((tmp_path / "bench" / "sort.json").read_text())
    assert [(row["sizes"], row["method"]) for row in result["rows"]] == list(
        product(("giant", "even"), ("sort", "ordering"))
    )
    for row in result["rows"]:
        assert row["padded_ratio"] == pytest.approx(row["padded"]["ms"] / row["ours"]["ms"])
        assert row["plain_ratio"] == pytest.approx(row["padded"]["ms"] / row["plain"]["ms"])
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
    assert code == 0 and [row["cells"] for row in result["growth"]] == [3] and result["grid"]["cells"] == 12
    assert all(value > 0 for value in result["growth"][0].values())
    assert result["growth"][0]["files_a_cell"] <= 5 and result["grid"]["files_a_cell"] == 5
    assert result["grid"]["cells_seconds"] > 0 and 0 < result["grid"]["beyond_training"] < result["grid"]["seconds"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one real, tiny `permlab bench train`."""
    folder = tmp_path_factory.mktemp("bench")
    words = [f"dataset={CLASSES}", "method=[ordering,augment]", "d=2", "model.dropout=0.1"]
    words += ["steps=4", "batch_size=8", "repeats=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(folder / "cache"))
        assert main(["bench", "train", *words, f"runs={folder}", "--json", "--picture", str(folder / "a.png")]) == 0
    return folder


def test_train_measures_both_sides(trained: Path) -> None:
    engine = "fast" if importlib.util.find_spec("numba") else "plain"
    result = json.loads((trained / "bench" / "train.json").read_text())
    assert [(row["method"], row["d"]) for row in result["rows"]] == [("ordering", 2), ("augment", 2)]
    for row in result["rows"]:
        low, high = row["ratio_range"]
        assert 0 < row["ours_range"][0] <= row["ours_ms"] <= row["ours_range"][1]
        assert 0 < row["plain_range"][0] <= row["plain_ms"] <= row["plain_range"][1]
        assert low <= high and row["ratio"] == pytest.approx(row["plain_ms"] / row["ours_ms"])
        assert row["loss_difference"] < 1e-4
        assert row["engine"] == engine
        assert row["mflop"] > 0 and row["mb"] > 0
        assert 3 <= row["steps"] <= 5
    assert {"cpu", "date", "threads", "load", "gemm_gflops", "copy_gb_s", "versions"} <= set(result["machine"])
    assert not (trained / "cells").exists()
    assert (trained / "a.png").stat().st_size > 1000


@two_cores
def test_offtrack_measures_every_variant_in_its_own_environment(
    permlab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trained: Path
) -> None:
    """`permlab bench train` is replaced by its stored rows, each variant slower than the one before."""
    measured: list[tuple[TrainBench, dict[str, str]]] = []

    def measure(bench: TrainBench, environment: dict[str, str], title: str) -> dict[str, Any]:
        measured.append((bench, environment))
        result = json.loads((trained / "bench" / "train.json").read_text())
        for row in result["rows"]:
            row["ratio"] = 10.0 / len(measured)
        return result

    monkeypatch.setattr("permlab.platform.bench.train.measure", measure)
    code, out, _ = permlab("bench", "offtrack", "variant=[tanh,avx2,threads]", f"runs={tmp_path}")
    rows = json.loads((tmp_path / "bench" / "offtrack.json").read_text())["rows"]
    assert code == 0 and [row["variant"] for row in rows] == ["tanh"] * 2 + ["avx2"] * 2 + ["threads"] * 2
    assert "The smallest ratio: 3.3×, threads" in out
    (tanh, no_additions), (avx2, additions), (threads, _) = measured
    assert (tanh.model.activation, avx2.model.activation, threads.threads, tanh.threads) == ("tanh", "relu", 2, 1)
    assert no_additions == {} and additions["ATEN_CPU_CAPABILITY"] == "avx2" and additions["NUMBA_CACHE_DIR"]


def test_a_cell_that_the_engine_refuses_is_left_out(permlab, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"dataset": "a", "method": "sum", "d": 1, "ms": {"whole": 2.0, "sort": 3.0}, "gain": {"sort": 1.5}},
        {"dataset": "a", "method": "ordering", "d": 1, "refused": "it has wings"},
    ]
    machine = {"cpu": "a CPU", "threads": 1, "date": "2026-11-16T12:00:00", "load": 0.1}
    result = {"bench": "engine", "machine": machine, "settings": {"repeats": 3, "batch_size": 128}, "rows": rows}
    result |= {"parts": {"sort": "sorts"}, "gains": [gain_of("sort", rows[:1])]}
    (tmp_path / "engine.json").write_text(json.dumps(result))
    code, out, err = permlab("bench", "engine", "--from", str(tmp_path / "engine.json"))
    assert (code, err) == (0, "") and "a ordering d=1 is left out" in out and "it has wings" in out
    assert "1.50×" in out


def test_engine_measures_training_without_each_part(permlab, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    from permlab.tasks.engine.door import PARTS

    words = (f"dataset={CLASSES}", "method=sum", "d=2", "steps=4", "batch_size=8", "repeats=1", f"runs={tmp_path}")
    code, out, err = permlab("bench", "engine", *words)
    result = json.loads((tmp_path / "bench" / "engine.json").read_text())
    (row,) = result["rows"]
    assert (code, err) == (0, "") and list(row["gain"]) == [*PARTS, "engine=plain"]
    for gain in result["gains"]:
        assert gain["mean"] == pytest.approx(row["ms"][gain["part"]] / row["ms"]["whole"])
        assert gain["part"] in out


@pytest.mark.parametrize("since", ["now", "before engines had names"])
def test_a_stored_result_is_shown_and_drawn(permlab, trained: Path, tmp_path: Path, since: str) -> None:
    result = json.loads((trained / "bench" / "train.json").read_text())
    if since != "now":
        result["rows"] = [{key: value for key, value in row.items() if key != "engine"} for row in result["rows"]]
        del result["seal"]
    (tmp_path / "stored.json").write_text(json.dumps(result))
    picture = tmp_path / "speed.svg"
    code, out, err = permlab("bench", "train", "--from", str(tmp_path / "stored.json"), "--picture", str(picture))
    assert (code, err) == (0, "")
    assert "ordering" in out and "GFLOP/s" in out and "× on average, at least" in out
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["flight"], "argument topic: invalid choice: 'flight' (choose from"),
        (["train", "method=polynomial"], "method=polynomial: unknown 'polynomial': choose from ordering, kernels"),
        (["train", "stepz=3"], "unknown setting stepz: did you mean steps? choose from runs"),
        (["train", "d=0"], "d=0: input should be greater than or equal to 1"),
        (["sort", "sizes=huge"], "sizes=huge: unknown 'huge': choose from constant, proteins, giant, even"),
        (["sort", "method=augment"], "choose from sort_columns, ordering"),
        (["data", "dataset=nope"], "nope"),
        (["sweep", "cells=-1"], "cells=-1: input should be greater than or equal to 1"),
        (["train", "dataset=nope"], "nope"),
        (["train", "threads=999"], "threads=999: this machine offers"),
        (["train", "engine=slow"], "engine=slow: input should be 'auto', 'plain' or 'fast'"),
        (["train", "model.dropout=1"], "model.dropout=1: input should be less than 1"),
        (["offtrack", "variant=huge"], "variant=huge: unknown 'huge': choose from dropout, tanh, wide"),
        (["engine", "method=polynomial"], "method=polynomial: unknown 'polynomial': choose from ordering, kernels"),
        (["train", "--picture", "speed.gif"], "must end in .png or .svg"),
        (["train", "--picture", "nowhere/speed.png"], "there is no folder nowhere"),
        (["sweep", "--picture", "speed.png"], "--picture draws the ratios of train, not of sweep"),
        (["train", "--from", "nowhere.json"], "'nowhere.json' is not a result of permlab bench train"),
        (["train", "d=1", "--from", "nowhere.json"], "d=1: a stored result takes no settings"),
    ],
)
def test_a_wrong_call_is_one_line(permlab, words: list[str], says: str) -> None:
    code, out, err = permlab("bench", *words)
    assert (code, out) == (2, "") and says in err and err.count("\n") == 1
