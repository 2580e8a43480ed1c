"""A run on a full disk."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from permlab.platform.errors import RunError
from permlab.platform.run.cell import run_cell
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings

WORDS = ["dataset=synthetic,graphs=60,max_nodes=6", "train.epochs=4", "train.checkpoint_every=1", "train.engine=plain"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mount.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("room", [0, 3_000, 400_000, 700_000])
def test_a_full_disk_is_a_one_line_error_and_the_run_resumes_when_there_is_room(small_disk: Path, room: int) -> None:
    """The disk is full at the start of the run, at its first checkpoint, or at a later one."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes((1 << 20) - 4096 - room))
    cell = read_settings(RunSettings, [*WORDS, f"runs={small_disk / 'runs'}"])
    with pytest.raises(RunError) as full:
        run_cell(cell)
    line = str(full.value)
    assert "\n" not in line and "no space left on device" in line
    assert str(small_disk / "runs") in line and f"mounted at {small_disk}" in line
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    assert run_cell(cell)["epochs"] == 4
