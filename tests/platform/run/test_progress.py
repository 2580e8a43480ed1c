"""How far a run is, read from files that grow, break off and begin again."""

import json
from pathlib import Path

from permlab.platform.files.json_files import write_json
from permlab.platform.run.histories import history_line
from permlab.platform.run.progress import Follower, headline_value, stored_headline
from permlab.tasks.metrics import higher_is_better


def test_a_follower_reads_only_what_is_new_and_begins_again_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    follower = Follower(path)
    follower.look()
    assert (follower.epoch, follower.measured) == (0, {})
    whole = history_line({"epoch": 5, "train/running_loss": 0.5, "holdout/auc": 0.7})
    path.write_text(whole + history_line({"epoch": 6, "train/running_loss": 0.4})[:-9])
    follower.look()
    assert (follower.epoch, follower.measured) == (5, {"holdout/auc": 0.7}) and follower.offset == len(whole)
    path.write_text(whole + history_line({"epoch": 6, "train/running_loss": 0.4}))
    follower.look()
    assert (follower.epoch, follower.measured) == (6, {"holdout/auc": 0.7})
    assert (follower.seconds_left(8) or 0) > (follower.seconds_left(7) or 0) > 0
    path.write_text(history_line({"epoch": 1, "train/running_loss": 0.9}))  # a new attempt
    follower.look()
    assert (follower.epoch, follower.measured, follower.seconds_left(8)) == (1, {}, None)
    with path.open("a") as file:
        file.write("not JSON\n" + history_line({"epoch": 2, "train/running_loss": 0.8}))
    follower.look()
    assert follower.epoch == 2


def test_the_headline_is_that_of_the_objective_on_the_holdout_or_else_on_validation(tmp_path: Path) -> None:
    objective = {"headline": "mcc", "metrics": {"mcc": ["MCC", True], "loss": ["loss", False]}}
    write_json(tmp_path / "run.json", {"tags": {"objective": json.dumps(objective)}})
    headline = stored_headline(tmp_path)
    measured = {"train/loss": 1, "train/mcc": 0.9, "holdout/loss": 1, "holdout/mcc": 0.5, "holdout_perm/mcc": 0.4}
    assert headline_value(measured, headline) == ("holdout MCC", 0.5) and higher_is_better("mcc")
    assert headline_value({"train/auc": 0.9, "validation/acc": 0.6, "validation/auc": 0.7}, "") == (
        "validation AUC",
        0.7,
    )
    assert headline_value({}, "auc") is None and stored_headline(tmp_path / "nowhere") == ""
    assert headline_value({"holdout/auc": None}, "auc") is None
