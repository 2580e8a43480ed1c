from pathlib import Path

import numpy as np
import pytest

from permlab.datasets.cache import build
from permlab.datasets.store import GraphStore
from permlab.platform.bench.pcba_table import write


def test_it_is_a_pcba_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write(tmp_path, 400) == tmp_path / "moleculenet" / "pcba.csv"
    monkeypatch.setenv("PERMLAB_MIRROR", str(tmp_path))
    manifest = build("moleculenet:pcba")
    assert (manifest.graphs, manifest.dropped, len(manifest.targets), manifest.gaps) == (400, 0, 128, True)
    assert manifest.nodes / manifest.graphs == pytest.approx(26, abs=2)  # as in pcba
    y = GraphStore.open("moleculenet:pcba").y
    assert np.isnan(y).mean() == pytest.approx(0.4, abs=0.02)
    assert np.nanmean(y) == pytest.approx(0.014, abs=0.004)
