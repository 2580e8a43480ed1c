"""A checkpoint is used only if it is exactly what was saved."""

import random
import shutil
from pathlib import Path

import pytest

from permlab.platform.run.checkpoint import load_state
from permlab.platform.run.training import Training
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings

WORDS = ["dataset=synthetic,graphs=60,max_nodes=6", "train.epochs=4", "train.checkpoint_every=1", "train.engine=plain"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    runs = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("data")))
        training = Training.prepare(read_settings(RunSettings, [*WORDS, f"runs={runs}"]))
        training.run()
    return training.folder / "checkpoint.pt", training.key


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_checkpoint_is_never_resumed_from(
    checkpoint: tuple[Path, str], tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One flipped bit or a file cut off anywhere: the previous checkpoint is used, and if that is damaged too, none."""
    source, key = checkpoint
    path, before = tmp_path / "checkpoint.pt", tmp_path / "checkpoint.before"
    whole, rng = source.read_bytes(), random.Random(seed)
    if seed % 4:
        bad = bytearray(whole)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
    else:
        bad = bytearray(whole[: rng.randrange(len(whole))])
    path.write_bytes(bad)
    shutil.copy(source.with_name(before.name), before)
    assert load_state(path, key).epoch == 3
    assert not path.exists()  # else it would become the previous one
    path.write_bytes(bad)
    before.write_bytes(bad)
    assert load_state(path, key).epoch == 0
    assert capsys.readouterr().err.count("is damaged") == 3


def test_a_checkpoint_of_another_run_or_of_another_version_is_not_resumed_from(
    checkpoint: tuple[Path, str], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.pt"
    shutil.copy(checkpoint[0], path)
    assert load_state(path, "another").epoch == 0
    for content in (b"", b"garbage" * 99, checkpoint[0].read_bytes()[:-32]):  # the last has no digest
        path.write_bytes(content)
        assert load_state(path, checkpoint[1]).epoch == 0
