from pathlib import Path

import pytest

from permlab.datasets.cache import build
from permlab.platform.reproduce.settings import ReproduceSettings
from permlab.platform.settings.words import read_settings

DATA = "qm9,limit=300"


@pytest.fixture
def settings(tmp_path: Path) -> ReproduceSettings:
    """A small grid on a little of QM9."""
    build(DATA)
    words = [f"dataset={DATA}", "name=fit", "method=[sum,set2set]", "d=[1,10]", "train.epochs=2", "track=false"]
    words += ["data.holdout=50", f"runs={tmp_path / 'runs'}", "tune.trials=3", "tune.pruner=none"]
    return read_settings(ReproduceSettings, words)
