import json
import re
from pathlib import Path

import pytest

from permlab.platform.run.histories import read_history

WORDS = ["dataset=synthetic,graphs=60,max_nodes=8,task=classification", "train.epochs=2", "track=false", "threads=1"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_json_has_the_documented_fields(permlab) -> None:
    code, out, _ = permlab("train", *WORDS, "method=sort", "d=4", "seed=3", "--json")
    document = json.loads(out)
    assert code == 0
    assert list(document) == ["dataset", "method", "d", "seed", "epochs", "key", "seconds", "metrics", "engine"]
    assert (document["method"], document["d"], document["seed"], document["epochs"]) == ("sort", 4, 3, 2)
    assert list(document["metrics"]) == ["train", "holdout", "holdout_perm"]
    assert list(document["metrics"]["holdout_perm"]) == ["loss", "acc", "auc", "ap"]


def test_a_table_for_people_and_a_second_call_that_trains_nothing(permlab) -> None:
    code, out, _ = permlab("train", *WORDS)
    assert code == 0 and "holdout_perm" in out and "2 epochs" in out
    code, again, err = permlab("train", *WORDS)
    assert code == 0 and "is done already" in err and again == out
    code, fresh, err = permlab("train", *WORDS, "--fresh")
    assert code == 0 and "is done already" not in err
    assert fresh.splitlines()[:4] == out.splitlines()[:4]


def test_help_lists_every_setting(permlab) -> None:
    code, out, _ = permlab("train", "--help")
    assert code == 0
    for key in ("train.learning_rate", "model.last_activation", "data.holdout", "accelerator"):
        assert key in out


def test_config_show(permlab) -> None:
    code, out, _ = permlab("config", "show", "paper-qm9", "d=50")
    assert code == 0 and "train.epochs" in out
    document = json.loads(permlab("config", "show", "paper-qm9", "d=50", "--json")[1])
    assert (document["dataset"], document["d"], document["train"]["epochs"]) == ("qm9", 50, 300)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["train.epochz=3"], 2, "did you mean train.epochs?"),
        (["method=sorting"], 2, "did you mean sort?"),
        (["d=0"], 2, "d=0: input should be greater than or equal to 1"),
        (["data.holdout=60"], 2, "holdout=60 asks for 60 of 60 graphs; choose 0 to 59"),
        (["dataset=table:nowhere.csv"], 2, "there is no file nowhere.csv"),
        (["method=kernels", "readout.size=3"], 2, "kernels has no option 'size': choose from"),
        (["method=alpha0", "d=40", "dataset=synthetic,graphs=9,min_nodes=25"], 2, "outputs; the limit is"),
        (["train.learning_rate=1e30", "train.optimizer=sgd", "train.epochs=9"], 1, "loss is"),
        (["train.learning_rate=1e30", "train.optimizer=sgd", "train.epochs=1"], 1, "loss is nan in epoch 1"),
        (["data.holdout=0"], 2, "the holdout part is empty; set data.holdout to at least 1"),
        (["data.holdout=inf"], 2, "data.holdout=inf: input should be a finite number"),
        (["data.holdout=1.5"], 2, "is not a fraction"),
        (["method=set2set", "d=10000"], 2, "the limit is 2,000"),
        (["method=kernels", "readout.kernels=99999999"], 2, "kernels is 99999999; the limit is 100,000"),
        (["method=set2set", "readout.steps=99999999"], 2, "steps is 99999999; the limit is 1,000"),
        (["method=ordering", "readout.key=spark:99999999"], 2, "the limit is 10,000"),
        (["method=identity", "d=10000", "model.head_hidden=9000"], 2, "weights; the limit is 100,000,000"),
        (["readout.seed=3"], 2, "readout.seed is set by the run itself"),
        (["accelerator=cuda"], 2, "accelerator=cuda is not on this machine; choose from auto, cpu"),
        (["runs=/proc/nowhere"], 1, "runs=/proc/nowhere cannot hold runs"),
    ],
)
def test_what_is_wrong_is_one_line(permlab, words: list[str], code: int, says: str) -> None:
    exit_code, out, err = permlab("train", *WORDS, *words)
    assert (exit_code, out) == (code, ""), err
    lines = [line for line in err.splitlines() if ": epoch " not in line]  # not the progress of a run that started
    assert len(lines) == 1 and says in lines[0], err


def test_a_failed_run_leaves_its_traceback(permlab, here: Path) -> None:
    permlab("train", *WORDS, "train.learning_rate=1e30", "train.optimizer=sgd", "train.epochs=9")
    (cell,) = (here / "runs" / "cells").iterdir()
    assert json.loads((cell / "result.json").read_text())["status"] == "FAILED"
    assert "Traceback" in (cell / "error.txt").read_text()


def test_history_holds_each_epoch_once(permlab, here: Path) -> None:
    permlab("train", *WORDS, "train.epochs=5", "train.eval_every=3")
    (cell,) = (here / "runs" / "cells").iterdir()
    history = read_history(cell)
    assert [entry["epoch"] for entry in history] == [1, 2, 3, 4, 5]
    assert ["holdout/auc" in entry for entry in history] == [False, False, True, False, True]


@pytest.mark.parametrize("switch", ["train.fast_dev_run=true", "train.overfit_batches=1"])
def test_debugging_runs_leave_nothing_behind(permlab, here: Path, switch: str) -> None:
    words = ["dataset=synthetic,graphs=1500,max_nodes=4", "track=false", "threads=1", "train.epochs=2", switch]
    for _ in range(2):  # a second call runs again: a breakpoint is reached every time
        code, out, err = permlab("train", *words, "--json")
        assert code == 0 and "is done already" not in err, err
    assert json.loads(out)["epochs"] <= 2 and not (here / "runs").exists()


def test_a_sweep_over_a_data_set_with_its_options_in_another_order_ends_with_its_table(permlab) -> None:
    words = [word for word in WORDS if not word.startswith(("dataset", "threads"))]
    assert permlab("train", "dataset=synthetic,graphs=60,max_nodes=8", *words)[0] == 0
    code, out, err = permlab("sweep", "dataset=synthetic,max_nodes=8,graphs=60", *words)
    assert code == 0 and "synthetic,graphs=60,max_nodes=8" in out and "1 of 1" in out, err


def test_a_profile_is_shown_also_of_a_finished_run_which_stays_as_it_is(permlab, here: Path) -> None:
    stamps = []
    for _ in range(2):
        code, _, err = permlab("train", *WORDS, "train.profile=true")
        assert code == 0 and "run_training_epoch" in err
        stamps += [path.stat().st_mtime_ns for path in here.glob("runs/cells/*/result.json")]
    assert "is done already" in err and len(stamps) == 2 and stamps[0] == stamps[1]


def test_a_debugging_run_tells_its_true_size(permlab) -> None:
    whole, short = (permlab("train", *WORDS, *more) for more in ([], ["train.fast_dev_run=true", "train.epochs=30"]))
    parameters = [re.findall(r"([\d,]+) parameters", out) for _, out, _ in (whole, short)]
    assert parameters[0] == parameters[1] != ["0"] and "1 epoch," in short[1] and "epoch 1 of 1" in short[2]


STOP = """
import pytorch_lightning as pl

class Stop(pl.Callback):
    engine_safe = True

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop |= trainer.current_epoch == 2

class Cut(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        trainer.should_stop |= trainer.current_epoch == 2 and batch_idx == 0
"""


@pytest.mark.parametrize(
    ("callback", "says"), [("Stop", "after epoch 3 of 8"), ("Cut", "epoch 3 of 8, after 1 of 3 b")]
)
def test_a_run_that_a_callback_ends_says_where_and_its_history_ends_there(permlab, here: Path, callback, says) -> None:
    (here / "stop.py").write_text(STOP)
    more = ["train.epochs=8", "train.batch_size=16", "train.eval_every=5", f"train.callbacks=[stop.py:{callback}]"]
    for _ in range(2):  # and when it is shown again
        code, out, err = permlab("train", *WORDS, *more)
        assert code == 0 and says in out and "3 epochs" in out, out + err
        assert "epoch 4" not in err
    (cell,) = (here / "runs" / "cells").iterdir()
    history = read_history(cell)
    assert [entry["epoch"] for entry in history] == [1, 2, 3] and "holdout/auc" in history[-1]


def test_an_edited_table_is_another_data_set(permlab, here: Path) -> None:
    words = ["dataset=table:mine.csv", "track=false", "threads=1", "train.epochs=1", "--json"]
    smiles = ["C" * n for n in range(1, 12)]
    keys = []
    for shift in (0.5, 1.5, 0.5):
        (here / "mine.csv").write_text("smiles,y\n" + "".join(f"{text},{i + shift}\n" for i, text in enumerate(smiles)))
        code, out, err = permlab("train", *words)
        assert code == 0, err
        keys.append(json.loads(out)["key"])
    assert keys[0] == keys[2] != keys[1]
    code, out, err = permlab("train", "dataset=table:./mine.csv", *words[1:])
    assert json.loads(out)["key"] == keys[0] and "is done already" in err  # a path is not part of a key
