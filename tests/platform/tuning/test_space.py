"""Search spaces: how they are read, what they contain, and which errors are reported."""

from typing import Any

import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.settings.run import RunSettings, cell_key
from permlab.platform.settings.words import read_settings
from permlab.platform.tuning.default_spaces import default_space
from permlab.platform.tuning.space import check_options, defaults, parse_space, with_values
from permlab.readouts.names import NAMES


def test_dotted_and_nested_keys_are_the_same_space() -> None:
    dotted = {"train.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "model.hidden": [25, 50]}
    nested = {"train": {"learning_rate": {"low": "1e-4", "high": "1e-2", "log": True}}, "model": {"hidden": [25, 50]}}
    assert parse_space(dotted) == parse_space(nested)  # YAML 1.1 reads 1e-4 as text
    assert parse_space(dotted)["model.hidden"].choices == (25, 50)


def test_a_readouts_own_space_overrides_the_common_one() -> None:
    tree: dict[str, Any] = {"model.hidden": [50], "kernels": {"readout.kernels": {"low": 10, "high": 20}}}
    tree["sum"] = {"model.hidden": [25, 100]}
    assert set(parse_space(tree, "kernels")) == {"model.hidden", "readout.kernels"}
    assert parse_space(tree, "sum")["model.hidden"].choices == (25, 100)
    assert parse_space(tree, "sort")["model.hidden"].choices == (50,)


@pytest.mark.parametrize("method", NAMES)
def test_default_spaces_hold_the_default_settings(method: str) -> None:
    settings = RunSettings(method=method, d=3)
    space = parse_space(default_space(method), method)
    check_options(settings, space, max_nodes=4)
    assert set(defaults(settings, space)) == {field for field in space if not field.startswith("readout.")}


def test_values_go_where_they_belong_and_change_the_key() -> None:
    settings = RunSettings(method="kernels")
    tried = with_values(settings, {"train.learning_rate": 0.01, "readout.kernels": 20, "model.dropout": 0.25})
    assert (tried.train.learning_rate, tried.readout, tried.model.dropout) == (0.01, {"kernels": 20}, 0.25)
    assert cell_key(tried, "digest") != cell_key(settings, "digest")


def test_a_default_outside_the_space_is_left_out() -> None:
    space = parse_space({"train.weight_decay": {"low": 1e-6, "high": 1e-2, "log": True}, "model.dropout": [0, 0.5]})
    assert defaults(RunSettings(), space) == {"model.dropout": 0.0}


def test_the_width_of_the_key_can_be_tuned() -> None:
    space = parse_space({"readout.key": ["ones", "spark:6", "gaussian:8"]})
    check_options(RunSettings(method="ordering", d=3), space, max_nodes=5)
    with pytest.raises(ConfigError, match=r"tune.space.readout.key=spark:2: .*2.* d = 3"):
        check_options(RunSettings(method="ordering", d=3), parse_space({"readout.key": ["spark:2"]}), max_nodes=5)
    with pytest.raises(ConfigError, match="sum has no option 'key'"):
        check_options(RunSettings(method="sum", d=3), space, max_nodes=5)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"train.learning_rat": {"low": 1, "high": 2}}, "did you mean train.learning_rate?"),
        ({"train.epochs": [10, 20]}, "train.epochs cannot be tuned"),
        ({"train.engine": ["plain", "fast"]}, "train.engine cannot be tuned"),
        ({"train.patience": [1, 2]}, "train.patience cannot be tuned"),
        ({"seed": [1, 2]}, "seed cannot be tuned"),
        ({"train.learning_rate": {"low": 1e-2, "high": 1e-4}}, "low=0.01 is not below high=0.0001"),
        ({"train.learning_rate": {"low": 0, "high": 1, "log": True}}, "low=0.0 has no logarithm"),
        ({"train.learning_rate": {"low": "few", "high": 1}}, "low=few is not a number"),
        ({"train.learning_rate": {"low": 1e-4}}, "give low and high"),
        ({"train.learning_rate": {"low": -1, "high": 1}}, "greater than 0"),
        ({"train.learning_rate": 0.1}, "or choices; got 0.1"),
        ({"train.batch_size": {"low": 16.5, "high": 64}}, "train.batch_size: 16.5"),
        ({"train.batch_size": {"low": 16, "high": 64, "log": "yes"}}, "log=yes"),
        ({"train.optimizer": ["adam", 3]}, "train.optimizer: 3"),
        ({"train.optimizer": {"low": 1, "high": 2}}, "give choices"),
        ({"train.batch_size": [64, "many"]}, "train.batch_size: many"),
        ({"train.batch_size": [True]}, "wrong type"),
        ({"model.dropout": []}, "a list of values"),
        ({"model.dropout": [[0.1]]}, "neither a number nor a word"),
    ],
)
def test_a_wrong_space_is_an_error_of_one_line(space: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_space(space)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_problems_name_the_setting() -> None:
    from permlab.platform.settings.sweep import TuningSettings

    with pytest.raises(ConfigError, match=r"^tune.space: train.lr cannot be tuned"):
        read_settings(TuningSettings, ["tune.space.train.lr={low: 1, high: 2}"])
    with pytest.raises(ConfigError, match=r"did you mean tune.trials\?"):
        read_settings(TuningSettings, ["tune.trial=3"])
    with pytest.raises(ConfigError, match=r"tune.pruner=mean"):
        read_settings(TuningSettings, ["tune.pruner=mean"])
    with pytest.raises(ConfigError, match=r"tune.storage=redis://x: choose postgresql://"):
        read_settings(TuningSettings, ["tune.storage=redis://x"])
