from typing import Any

import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.reproduce.settings import ReproduceSettings
from permlab.platform.reproduce.space import DEFAULT, defaults, joint_space, with_values

NODES = 30


def grid(*methods: str, **other: Any) -> ReproduceSettings:
    return ReproduceSettings(method=list(methods), d=[10], **other)


def test_by_default_all_that_the_paper_leaves_open_is_searched() -> None:
    assert set(joint_space(grid("sum", "kernels", "set2set"), DEFAULT, NODES)) == set(DEFAULT)
    assert not [name for name in joint_space(grid("sum"), DEFAULT, NODES) if "readout" in name]


def test_trial_0_is_the_default_settings() -> None:
    settings = grid("sum", "kernels", "set2set", readout={"set2set": {"steps": 5}})
    values = defaults(settings, joint_space(settings, DEFAULT, NODES))
    assert set(values) == set(DEFAULT)
    assert (values["train.learning_rate"], values["model.bias"], values["model.init"]) == (1e-3, True, "default")
    assert (values["kernels.readout.kernels"], values["set2set.readout.steps"]) == (100, 5)
    keep = [cell.model_dump(exclude={"readout"}) for cell in settings.cells()]
    assert [cell.model_dump(exclude={"readout"}) for cell in with_values(settings, values).cells()] == keep


def test_options_of_a_readout_reach_it_alone() -> None:
    values = {"model.norm": "batch", "kernels.readout.kernels": 30, "set2set.readout.steps": 2}
    cells = {cell.method: cell for cell in with_values(grid("sum", "kernels", "set2set"), values).cells()}
    assert {cell.model.norm for cell in cells.values()} == {"batch"}
    assert {method: cell.readout for method, cell in cells.items()} == {
        "sum": {}, "kernels": {"kernels": 30}, "set2set": {"steps": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"train.epochs": [1, 2]}, "train.epochs cannot be tuned"),
        ({"kernels.train.learning_rate": [0.1, 1.0]}, "only its own options"),
        ({"kernels.readout.cores": [1, 2]}, "cores"),
        ({"model.norm": ["batch", "group"]}, "group"),
        ({"sum.readout.x": [1]}, "names nothing to search"),
    ],
)
def test_a_wrong_space_is_one_line(tree: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        joint_space(grid("kernels"), tree, NODES)
