"""Plug-ins that do not work: each call ends with exit code 1 or 2 and one line that names what is wrong."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from permlab.platform.plugins import names

Permlab = Callable[..., tuple[int, str, str]]
SMALL = ("d=3", "model.hidden=4", "model.head_hidden=4", "train.epochs=1", "track=false")
READOUT = """
import torch
from torch_geometric.nn.aggr import Aggregation

class Mine(Aggregation):
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        mean = self.reduce(x, index, ptr, dim_size, dim, reduce="mean")
        return {result}
"""
BACKBONE = """
from torch import nn

class Mine(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.layer = nn.Linear(in_channels, out_channels + {more})

    def forward(self, x, edge_index):
        return {result}
"""
LOSS = "def mine(predictions, y):\n    return {result}\n"
METRIC = """
import torch, torchmetrics

class Mine(torchmetrics.Metric):
    higher_is_better = {better}

    def update(self, predictions, y):
        pass

    def compute(self):
        return {result}
"""
DATA = """
import torch
from torch_geometric.data import Data

def mine(graphs=9):
    {body}
"""
GRAPH = "return [Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]){more}) for _ in range(graphs)]"


class Wrong(NamedTuple):
    """The file mine.py, a word of the call, and parts of the line that it ends with."""

    source: str
    word: str
    said: tuple[str, ...]


def readout(result: str, *said: str) -> Wrong:
    return Wrong(READOUT.format(result=result), "method=mine.py:Mine", said)


def backbone(result: str, *said: str, more: int = 0) -> Wrong:
    return Wrong(BACKBONE.format(result=result, more=more), "model.backbone=mine.py:Mine", said)


def loss(result: str, *said: str) -> Wrong:
    return Wrong(LOSS.format(result=result), "objective.loss=mine.py:mine", said)


def metric(better: str, result: str, *said: str) -> Wrong:
    return Wrong(METRIC.format(better=better, result=result), "objective.metrics=[mine.py:Mine]", said)


def data(body: str, *said: str) -> Wrong:
    return Wrong(DATA.format(body=body), "dataset=mine.py:mine", said)


def constructed(arguments: str, body: str, *said: str, options: str = "") -> Wrong:
    source = READOUT.format(result="mean") + f"\n    def __init__(self{arguments}):\n        {body}\n"
    return Wrong(source, f"method=mine.py:Mine{options}", said)


WRONG = {
    # the file
    "missing file": Wrong("", "method=theirs.py:Mine", ("there is no file theirs.py",)),
    "missing class": Wrong("class Main: pass", "method=mine.py:Mine", ("has no Mine", "Main")),
    "missing module": Wrong("", "method=no_such_package.readouts:Mine", ("no_such_package.readouts",)),
    "syntax error": Wrong("class Mine(:\n", "method=mine.py:Mine", ("mine.py, line 1",)),
    "import error": Wrong("import no_such_package", "method=mine.py:Mine", ("No module named 'no_such_package'",)),
    "error on import": Wrong("1 / 0", "method=mine.py:Mine", ("mine.py", "ZeroDivisionError")),
    "exit on import": Wrong("raise SystemExit('bye')", "method=mine.py:Mine", ("mine.py", "SystemExit: bye")),
    "error of two lines": Wrong("raise ValueError('one\\ntwo')", "method=mine.py:Mine", ("ValueError: one",)),
    "no class in the name": Wrong(READOUT, "method=mine.py", ("unknown readout 'mine.py'", "file.py:Name")),
    # readouts
    "not a class": Wrong("Mine = 3", "method=mine.py:Mine", ("mine.py:Mine is 3", "Aggregation")),
    "a function": Wrong("def Mine(x): return x", "method=mine.py:Mine", ("Mine", "function", "Aggregation")),
    "not an aggregation": Wrong("class Mine: pass", "method=mine.py:Mine", ("Mine", "Aggregation")),
    "no module at all": Wrong("Mine = 'sum'", "method=mine.py:Mine", ("mine.py:Mine is 'sum'", "Aggregation")),
    "constructor raises": constructed("", "raise OSError('no luck')", "Mine cannot be built", "OSError: no luck"),
    "constructor exits": constructed("", "raise SystemExit(3)", "Mine", "SystemExit"),
    "without super().__init__": constructed("", "self.layer = torch.nn.Linear(1, 1)", "Mine", "__init__"),
    "missing argument": constructed(", depth, width=3", "super().__init__()", "needs depth", "Mine(depth, width=3)"),
    "positional argument": constructed(", depth, /", "super().__init__()", "Mine", "depth"),
    "unknown option": constructed(", width=3", "super().__init__()", "no option 'depth'", "width", options=",depth=2"),
    "option of no type": constructed(
        ", width=3", "super().__init__(); torch.zeros(width)", "Mine", "width=3", options=",width=few"
    ),
    "option twice": constructed("", "super().__init__()", "depth twice", options=",depth=1,depth=2"),
    "gives NaN": readout("mean / 0 - mean / 0", "Mine", "not all finite"),
    "gives integers": readout("mean.long()", "Mine", "int64"),
    "gives complex numbers": readout("mean + 1j", "Mine", "complex64"),
    "gives one row": readout("mean[:1]", "Mine", "[1, 3]", "one row per graph"),
    "gives a row per node": readout("x", "Mine", "[5, 3]", "one row per graph"),
    "gives a cube": readout("mean[:, None]", "Mine", "[2, 1, 3]"),
    "gives no column": readout("mean[:, :0]", "Mine", "[2, 0]"),
    "gives a pair": readout("(mean, mean)", "Mine", "tuple"),
    "gives nothing": readout("None", "Mine", "NoneType"),
    "raises in forward": readout("mean.no_such_method()", "Mine fails", "no_such_method"),
    "exits in forward": readout("exit(3)", "Mine fails", "SystemExit"),
    "no forward": Wrong(
        "from torch_geometric.nn.aggr import Aggregation as Mine", "method=mine.py:Mine", ("Aggregation", "NoneType")
    ),
    "fails at other sizes": readout("mean if len(mean) == 2 else mean[:1]", "predictions are [1]"),
    "raises at other sizes": readout("mean if len(mean) == 2 else 1 / 0", "ZeroDivisionError", "mine.py, line 8"),
    "unknown class of PyG": Wrong("", "method=pyg:MedianAgregation", ("did you mean pyg:MedianAggregation",)),
    "class of PyG that is another thing": Wrong("", "method=pyg:GCNConv", ("pyg:GCNConv",)),
    "class of PyG without its options": Wrong("", "method=pyg:QuantileAggregation", ("needs q",)),
    "class of PyG, wrong option": Wrong("", "method=pyg:SortAggregation,k=5,l=1", ("no option 'l'", "k")),
    "class of PyG, no number": Wrong("", "method=pyg:SortAggregation,k=few", ("SortAggregation,k=few fails",)),
    "option of a built-in": Wrong("", "method=kernels,kernel=3", ("no option 'kernel'", "kernels")),
    # backbones
    "backbone of wrong width": backbone("self.layer(x)", "[5, 4]", "[5, 3]", more=1),
    "backbone gives a pair": backbone("(x, edge_index)", "Mine", "tuple"),
    "backbone gives NaN": backbone("self.layer(x) * float('nan')", "Mine", "finite"),
    "backbone gives integers": backbone("self.layer(x).long()", "Mine", "int64"),
    "backbone fails": backbone("self.layer(x) @ x", "Mine fails"),
    "backbone is no module": Wrong("class Mine: pass", "model.backbone=mine.py:Mine", ("Mine", "torch.nn.Module")),
    "backbone is a number": Wrong("Mine = 3", "model.backbone=mine.py:Mine", ("mine.py:Mine is 3", "Module")),
    "backbone without forward": Wrong(
        "import torch\nclass Mine(torch.nn.Module): pass", "model.backbone=mine.py:Mine", ("Mine", "forward")
    ),
    "backbone needs an argument": Wrong(
        "import torch\nclass Mine(torch.nn.Module):\n  def __init__(self, depth): pass\n",
        "model.backbone=mine.py:Mine",
        ("needs depth", "Mine(depth)"),
    ),
    "unknown backbone": Wrong("", "model.backbone=gnc", ("unknown backbone 'gnc'", "gcn")),
    "unknown backbone of PyG": Wrong("", "model.backbone=pyg:GraphSAG", ("pyg:GraphSAGE",)),
    "gine without edge features": Wrong("", "model.backbone=gine", ("edge features", "gin")),
    # objectives, losses, metrics, callbacks
    "loss gives a vector": loss("(predictions - y) ** 2", "one number", "[64]"),
    "loss gives a float": loss("0.5", "one number", "float"),
    "loss raises": loss("predictions.no_such_method()", "no_such_method", "mine.py, line 2"),
    "loss gives NaN": loss("(predictions - y).mean() * float('nan')", "loss"),
    "loss without a gradient": loss("(predictions - y).mean().detach()", "the loss has no gradient"),
    "loss is a number": Wrong("mine = 3", "objective.loss=mine.py:mine", ("3", "function")),
    "loss with parameters": Wrong(
        "import torch\nclass Mine(torch.nn.Module):\n  def __init__(self):\n    super().__init__()\n"
        "    self.w = torch.nn.Parameter(torch.ones(1))\n",
        "objective.loss=mine.py:Mine",
        ("Mine", "parameters"),
    ),
    "loss that does not fit": Wrong("", "objective.loss=bce", ("bce", "mse")),
    "kind that does not fit": Wrong("", "objective.kind=multiclass", ("multiclass", "regression")),
    "objective is none": Wrong("class Mine: pass", "objective.kind=mine.py:Mine", ("objective.kind", "Objective")),
    "unknown metric": Wrong("", "objective.metrics=[R3Score]", ("R3Score", "R2Score")),
    "metric of another task": Wrong("", "objective.metrics=[MatthewsCorrCoef]", ("MatthewsCorrCoef",)),
    "metric without a direction": metric("None", "torch.tensor(0.)", "Mine", "higher_is_better"),
    "metric gives a vector": metric("True", "torch.zeros(3)", "mine", "Regression"),
    "metric raises": metric("True", "1 / 0", "mine", "division"),
    "metric is none": Wrong("class Mine: pass", "objective.metrics=[mine.py:Mine]", ("mine", "torchmetrics.Metric")),
    "callback is none": Wrong("class Mine: pass", "train.callbacks=[mine.py:Mine]", ("Mine", "Callback")),
    "callback cannot be built": Wrong(
        "import pytorch_lightning as pl\nclass Mine(pl.Callback):\n  def __init__(self, depth): pass\n",
        "train.callbacks=[mine.py:Mine]",
        ("Mine", "depth"),
    ),
    "callback raises": Wrong(
        "import pytorch_lightning as pl\nclass Mine(pl.Callback):\n  def on_fit_start(self, *_): 1 / 0\n",
        "train.callbacks=[mine.py:Mine]",
        ("ZeroDivisionError", "mine.py, line 3"),
    ),
    "callback by name": Wrong("", "train.callbacks=[EarlyStopping]", ("EarlyStopping", "file.py:MyCallback")),
    # data
    "data of nothing": data("return None", "mine.py:mine", "NoneType"),
    "data without graphs": data("return []", "mine.py:mine", "no graphs"),
    "data of numbers": data("return [1, 2]", "graph 0", "int"),
    "data that raises": data("raise KeyError('graphs')", "mine.py:mine raised KeyError"),
    "data without y": data(GRAPH.format(more=""), "graph 0 has no y"),
    "data with a wrong edge": data(GRAPH.format(more=" + 1, y=1.0"), "graph 0", "node 2"),
    "data by a number": Wrong("mine = 3", "dataset=mine.py:mine", ("mine.py:mine", "3 is not a callable")),
    "parameter nobody takes": Wrong(
        DATA.format(body=GRAPH.format(more=", y=1.0")), "dataset=mine.py:mine,grahps=3", ("grahps",)
    ),
    "unknown data set of PyG": Wrong("", "dataset=pyg:ZINK", ("ZINK", "ZINC")),
}  # fmt: skip


def said_in_one_line(answer: tuple[int, str, str], said: tuple[str, ...]) -> None:
    code, _, err = answer
    assert code in (1, 2), (code, err)
    assert err.count("\n") == 1 and "Traceback" not in err, err
    for part in said:
        assert part in err, err


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_train_says_in_one_line_what_is_wrong(wrong: Wrong, permlab: Permlab) -> None:
    Path("mine.py").write_text(wrong.source)
    said_in_one_line(permlab("train", "dataset=synthetic,graphs=80,max_nodes=6", *SMALL, wrong.word), wrong.said)


READOUTS = [name for name, wrong in WRONG.items() if wrong.word.startswith("method=") and "other sizes" not in name]


@pytest.mark.parametrize("name", READOUTS)
def test_certify_says_it_too(name: str, permlab: Permlab) -> None:
    Path("mine.py").write_text(WRONG[name].source)
    method = WRONG[name].word.removeprefix("method=")
    code, _, err = permlab("certify", method, "--n", "3", "--d", "3", "--samples", "20", "--steps", "2")
    assert code in (1, 2) and err.count("\n") == 1 and "Traceback" not in err, (code, err)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with two entry points, one of which cannot be imported."""
    site = tmp_path / "site"
    about = site / "lab_of_theirs-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-of-theirs\nVersion: 1\n")
    points = "[permlab.readouts]\ntheirs = lab_of_theirs:Mine\nbroken = lab_of_theirs.broken:Mine\n"
    (about / "entry_points.txt").write_text(points)
    (site / "lab_of_theirs").mkdir()
    (site / "lab_of_theirs" / "__init__.py").write_text(READOUT.format(result="mean"))
    (site / "lab_of_theirs" / "broken.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(site)
    names.entry_names.cache_clear()
    yield site
    names.entry_names.cache_clear()
    for module in [module for module in sys.modules if module.startswith("lab_of_theirs")]:
        del sys.modules[module]


def test_an_entry_point_works_and_one_that_cannot_be_imported_says_so(installed: Path, permlab: Permlab) -> None:
    small = ("dataset=synthetic,graphs=80,max_nodes=6", *SMALL)
    assert permlab("train", *small, "method=theirs")[0] == 0
    said_in_one_line(permlab("train", *small, "method=broken"), ("no_such_package",))
    code, out, err = permlab("readouts", "--json")
    assert code == 0 and '"theirs"' in out and '"broken"' not in out and "no_such_package" in err
    said_in_one_line(permlab("train", *small, "method=thiers"), ("unknown readout 'thiers'", "theirs"))
