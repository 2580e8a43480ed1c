"""The files of docs/examples through the real command line, and what a stored run does with the code that it names."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch_geometric.nn.aggr import MeanAggregation, PowerMeanAggregation

import permlab as library
from permlab.datasets.catalogue import FACTORIES
from permlab.datasets.store import GraphStore
from permlab.platform.plugins import code
from tests.platform.driving import drive

Permlab = Callable[..., tuple[int, str, str]]
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SMALL = ("dataset=synthetic,graphs=90,max_nodes=8", "d=3", "model.hidden=4", "model.head_hidden=4")
QUICK = ("train.epochs=2", "track=false")
READOUT = "my_readout.py:MeanAndSpread"
CALLS = {  # every file: words of a call, and what its result shows
    "my_readout.py": ([f"method={READOUT}"], "my_readout.py:MeanAndSpread d=3"),
    "my_sharp_readout.py": (["method=my_sharp_readout.py:Sharp", "readout.p=8"], "my_sharp_readout.py:Sharp d=3"),
    "my_backbone.py": (["model.backbone=my_backbone.py:TwoHops", "backbone.skip=false"], "sum d=3"),
    "raw.py": (
        ["model.backbone=raw.py:Raw", "dataset=synthetic,graphs=90,max_nodes=8,features=3"],
        "sum d=3",
    ),
    "my_data.py": (["dataset=my_data.py:cycles,graphs=90"], "auc"),
    "my_loss.py": (["objective.loss=my_loss.py:log_cosh"], "mae"),
    "my_metric.py": (["objective.metrics=[my_metric.py:WorstError,R2Score]"], "worst_error"),
    "my_callback.py": (["train.callbacks=[my_callback.py:LargestGradient]"], "epoch 1: largest gradient"),
}


@pytest.fixture(autouse=True)
def in_a_folder_with_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for example in EXAMPLES.glob("*.py"):
        shutil.copy(example, tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def forgetful() -> Callable[[], None]:
    """Forget all code, as a new process would."""

    def forget() -> None:
        code.LOADED.clear()
        FACTORIES.clear()

    forget()
    return forget


def keys() -> set[str]:
    return {path.name for path in Path("runs/cells").iterdir()}


def the_key() -> str:
    (key,) = keys()
    return key


def edit(name: str, comment: str = "# a comment\n") -> None:
    path = Path(name)
    path.write_text(path.read_text() + comment)


def test_every_example_is_tested() -> None:
    assert set(CALLS) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", CALLS)
def test_an_example_trains(name: str, permlab: Permlab) -> None:
    words, shown = CALLS[name]
    exit_code, out, err = permlab("train", *SMALL, *QUICK, *words)
    assert exit_code == 0, err
    assert shown in out


def test_data_of_ones_own_is_built_and_described(permlab: Permlab) -> None:
    for verb in ("build", "info", "verify", "path"):
        exit_code, _, err = permlab("data", verb, "my_data.py:cycles", "graphs=90")
        assert exit_code == 0, err


@pytest.mark.parametrize("method", [READOUT, "my_sharp_readout.py:Sharp"])
def test_an_example_is_listed_and_certified(method: str, permlab: Permlab) -> None:
    (row,) = json.loads(permlab("readouts", method, "--json")[1])
    assert row["permutation_invariant"] is (None if method == READOUT else True)
    exit_code, out, _ = permlab(
        "certify", method, "--n", "3", "--d", "2", "--samples", "200", "--steps", "20", "--json"
    )
    certificate = json.loads(out)
    assert exit_code == 0 and certificate["invariance_error"] < 1e-9 and not certificate["contradictions"]


def test_the_space_of_a_readout_is_searched() -> None:
    from permlab.platform.settings.run import RunSettings
    from permlab.platform.settings.words import read_settings
    from permlab.platform.tuning.default_spaces import default_space
    from permlab.platform.tuning.space import check_options, parse_space

    settings = read_settings(RunSettings, ["method=my_sharp_readout.py:Sharp"])
    space = parse_space(default_space(settings.method), settings.method)
    assert space["readout.p"].low < space["readout.p"].high
    check_options(settings, space, max_nodes=5)


def test_a_changed_comment_gives_another_key(permlab: Permlab) -> None:
    call = ("train", *SMALL, *QUICK, f"method={READOUT}", "--json")
    first = json.loads(permlab(*call)[1])
    again = json.loads(permlab(*call)[1])
    edit("my_readout.py")
    second = json.loads(permlab(*call)[1])
    assert first["key"] == again["key"] != second["key"]
    assert first["metrics"] == second["metrics"]
    assert keys() == {first["key"], second["key"]}
    for key in keys():
        assert json.loads(Path("runs/cells", key, "result.json").read_text())["key"] == key


@pytest.mark.usefixtures("one_thread")
class TestPredict:
    """Of a run that was trained with code."""

    @pytest.fixture(autouse=True)
    def trained(self, permlab: Permlab, forgetful: Callable[[], None]) -> str:
        assert permlab("train", *SMALL, *QUICK, f"method={READOUT}")[0] == 0
        forgetful()
        return the_key()

    def test_it_is_refused_without_the_code(self, trained: str, permlab: Permlab) -> None:
        exit_code, _, err = permlab("predict", trained)
        assert exit_code == 1 and err.count("\n") == 1 and f"--code {READOUT}" in err

    def test_it_works_with_the_code(self, trained: str, permlab: Permlab) -> None:
        exit_code, out, err = permlab("predict", trained, "--code", READOUT, "--out", "scores.parquet")
        assert exit_code == 0 and "90 graphs" in out and not err
        assert Path("scores.parquet").exists()

    def test_it_says_that_the_code_has_changed(self, trained: str, permlab: Permlab) -> None:
        edit("my_readout.py")
        exit_code, _, err = permlab("predict", trained, "--code", READOUT)
        assert exit_code == 0 and f"{READOUT} has changed" in err and err.count("\n") == 1

    def test_code_that_no_longer_fits_is_one_line(self, trained: str, permlab: Permlab) -> None:
        edit("my_readout.py", "MeanAndSpread = __import__('torch_geometric').nn.SumAggregation\n")
        exit_code, _, err = permlab("predict", trained, "--code", READOUT)
        assert exit_code == 1 and "does not fit" in err and "Traceback" not in err

    def test_another_code_does_not_stand_for_it(self, trained: str, permlab: Permlab) -> None:
        exit_code, _, err = permlab("predict", trained, "--code", "my_sharp_readout.py:Sharp")
        assert exit_code == 1 and f"--code {READOUT}" in err


def test_predict_needs_no_callback_and_no_data_that_is_built(
    permlab: Permlab, forgetful: Callable[[], None], cache: Path
) -> None:
    words = ("dataset=my_data.py:cycles,graphs=90", "train.callbacks=[my_callback.py:LargestGradient]")
    assert permlab("train", *SMALL, *QUICK, *words)[0] == 0
    forgetful()
    exit_code, _, err = permlab("predict", the_key())
    assert exit_code == 0, err
    shutil.rmtree(cache)
    exit_code, _, err = permlab("predict", the_key())
    assert exit_code == 1 and err.count("\n") == 1 and "my_data.py:cycles" in err
    assert permlab("predict", the_key(), "--code", "my_data.py:cycles")[0] == 0


TELLTALE = "from pathlib import Path\nPath(__file__).with_name('it-ran').touch()\n"


@pytest.mark.parametrize(
    "words",
    [
        [f"method={READOUT}"],
        ["model.backbone=my_backbone.py:TwoHops"],
        ["dataset=my_data.py:cycles,graphs=90"],
        ["objective.loss=my_loss.py:log_cosh"],
        ["objective.metrics=[my_metric.py:WorstError]"],
        ["train.callbacks=[my_callback.py:LargestGradient]"],
    ],
)
def test_a_stored_run_never_causes_an_import(
    words: list[str], permlab: Permlab, forgetful: Callable[[], None], cache: Path
) -> None:
    drive(Path("runs"), *SMALL, *QUICK, "name=mine", *words)
    forgetful()
    for example in Path().glob("my_*.py"):
        edit(example.name, TELLTALE)
    for call in (("status",), ("status", "mine"), ("report", "mine"), ("predict", the_key())):
        exit_code, _, err = permlab(*call)
        assert exit_code in (0, 1) and "Traceback" not in err, (call, err)
        assert exit_code == 0 or call[0] == "predict", (call, err)
    shutil.rmtree(cache)
    for call in (("status", "mine"), ("report", "mine"), ("predict", the_key())):
        permlab(*call)
    assert not Path("it-ran").exists()
    head = words[0].partition("=")[2].strip("[]").partition(",")[0]
    permlab("predict", the_key(), "--code", head)
    assert Path("it-ran").exists()  # the telltale works


OBJECTIVE = """
from permlab.tasks.objectives import Regression

class Scaled(Regression):
    def __init__(self, names, std=None, factor=1.0):
        super().__init__(names, std=std)
        self.factor = factor

    def loss(self, predictions, y):
        return self.factor * super().loss(predictions, y)
"""


def test_an_objective_of_ones_own(permlab: Permlab) -> None:
    Path("mine.py").write_text(OBJECTIVE)
    losses = []
    for factor in (1, 3):
        call = permlab("train", *SMALL, *QUICK, f"objective.kind=mine.py:Scaled,factor={factor}", "--json")
        losses.append(json.loads(call[1])["metrics"]["train"]["loss"])
    assert losses[1] == pytest.approx(3 * losses[0], rel=0.05) and len(keys()) == 2


class Largest(MeanAggregation):
    """A class of this file."""

    def forward(self, x: Tensor, *args: Any, **keywords: Any) -> Tensor:
        doubled: Tensor = 2 * super().forward(x, *args, **keywords)
        return doubled


PYTHON = {"dataset": "synthetic,graphs=90,max_nodes=8", "d": 3, "track": False, "train": {"epochs": 2}}


def test_classes_and_objects_from_python() -> None:
    by_class = library.train(**PYTHON, method=Largest)
    by_object = library.train(**PYTHON, method=PowerMeanAggregation(p=2.0))
    other = library.train(**PYTHON, method=PowerMeanAggregation(p=3.0))
    assert "Largest" in by_class.settings.method and by_class.metrics["holdout"]["mae"] > 0
    assert len(keys()) == 3 and by_object.metrics != other.metrics
    assert library.train(**PYTHON, method=PowerMeanAggregation(p=2.0)).metrics == by_object.metrics
    assert len(keys()) == 3


def test_a_class_of_a_notebook() -> None:
    """Without a file that another process could import."""

    class Local(MeanAggregation):
        pass

    result = library.train(**PYTHON, method=Local)
    graphs = GraphStore.open(str(PYTHON["dataset"])).batch(np.arange(90))
    assert result.model(graphs).shape == (90,)
    assert library.train(result.settings).metrics == result.metrics


def test_certify_takes_a_class_and_an_object() -> None:
    for readout in (Largest, MeanAggregation()):
        certificate = library.certify(readout, n=3, d=2, samples=100, steps=10)
        assert certificate.invariance_error < 1e-9 and (certificate.collision or certificate.unconfirmed)
