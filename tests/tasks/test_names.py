"""The names that settings check without torch are those of the tables."""

from permlab.tasks.backbones import BACKBONES
from permlab.tasks.losses import LOSSES
from permlab.tasks.names import BACKBONE_NAMES, LOSS_NAMES


def test_names_are_those_of_the_tables() -> None:
    assert tuple(BACKBONES) == BACKBONE_NAMES and tuple(LOSSES) == LOSS_NAMES
