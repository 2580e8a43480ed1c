"""A cache survives damage, killed and concurrent builders, and a full disk."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from permlab.datasets.cache import build, verify
from permlab.datasets.checked import checked_manifest
from permlab.datasets.errors import DataError
from permlab.datasets.manifest import CacheBroken, CacheMissing
from permlab.datasets.store import GraphStore
from tests.datasets.stores import use_small_shards

SMALL = "synthetic,graphs=200"
LARGE = "synthetic,graphs=100000"


def builder(name: str, **environment: str) -> subprocess.Popen[str]:
    code = "import sys; from permlab.platform.cli import main; sys.exit(main(['data', 'build', sys.argv[1]]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, name],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)


def test_builds_once_and_verifies(cache: Path) -> None:
    seen: list[int] = []
    manifest = build(SMALL, progress=lambda done, total: seen.append(done))
    assert seen == [0, 200]
    stamp = (cache / SMALL / "manifest.json").stat().st_mtime_ns
    assert build(SMALL) == verify(SMALL) == manifest
    assert (cache / SMALL / "manifest.json").stat().st_mtime_ns == stamp
    assert sorted(path.name for path in cache.iterdir()) == [f".{SMALL}.lock", SMALL]


def test_shards_are_cut_by_size_and_cover_the_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_shards(monkeypatch, graphs_per_chunk=50, shard_bytes=40_000)
    manifest = build(SMALL)
    assert len(manifest.shards) > 1 and sum(shard.graphs for shard in manifest.shards) == 200
    store = GraphStore.open(SMALL)
    assert sum(len(shard.x) for shard in store.shards) == manifest.nodes == store.node_ptr[-1]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["shard-00000.arrow", "az.npy", "y.npy"])
@pytest.mark.parametrize("use", [verify, GraphStore.open])
def test_a_flipped_byte_is_found(cache: Path, file: str, use: Callable[[str], object]) -> None:
    build(SMALL)
    use(SMALL)
    flip(cache / SMALL / file)
    with pytest.raises(CacheBroken, match=rf"{file}.*digest.*permlab data build {SMALL} --force"):
        use(SMALL)
    build(SMALL)
    use(SMALL)


def reads(cache: Path) -> int:
    """How many files are read when the cache is checked."""
    seen: list[int] = []
    checked_manifest(cache / SMALL, SMALL, lambda done, total: seen.append(done))
    return len(seen)


def test_files_are_read_again_only_if_they_changed(cache: Path) -> None:
    files = len(build(SMALL).files)
    assert [reads(cache), reads(cache)] == [files, 0]
    path = cache / SMALL / "az.npy"
    path.write_bytes(path.read_bytes())
    assert [reads(cache), reads(cache)] == [1, 0]
    flip(cache / SMALL / ".checked.json")
    assert [reads(cache), reads(cache)] == [files, 0]


def test_a_change_that_hides_its_time_is_found(cache: Path) -> None:
    build(SMALL)
    reads(cache)
    path = cache / SMALL / "az.npy"
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
    with pytest.raises(CacheBroken, match="az.npy.*digest"):
        reads(cache)


def test_a_cache_without_a_stamp_is_read_once_per_process(cache: Path) -> None:
    files = len(build(SMALL).files)
    (cache / SMALL / ".checked.json").mkdir()
    assert [reads(cache), reads(cache)] == [files, 0]


def test_no_flipped_bit_of_a_manifest_changes_what_is_read(cache: Path) -> None:
    manifest, path = build(SMALL), cache / SMALL / "manifest.json"
    whole, rng = path.read_bytes(), random.Random(0)
    for _ in range(300):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        with suppress(CacheBroken):
            assert checked_manifest(cache / SMALL, SMALL) == manifest


@pytest.mark.parametrize("file", ["shard-00000.arrow", "a_value.npy", "manifest.json"])
def test_a_missing_file_is_named(cache: Path, file: str) -> None:
    build(SMALL)
    (cache / SMALL / file).unlink()
    with pytest.raises(CacheBroken, match=rf"{file} is missing.*permlab data build {SMALL} --force"):
        GraphStore.open(SMALL)
    build(SMALL)  # a broken cache is rebuilt without --force
    GraphStore.open(SMALL)


def test_a_truncated_shard_is_found(cache: Path) -> None:
    """A mapped file that is too short would kill the reader with SIGBUS."""
    build(SMALL)
    os.truncate(cache / SMALL / "shard-00000.arrow", 100)
    with pytest.raises(CacheBroken, match="shard-00000.arrow.* 100 bytes"):
        GraphStore.open(SMALL)


@pytest.mark.parametrize("length", [0, 10, 400])
def test_a_truncated_manifest_is_found(cache: Path, length: int) -> None:
    build(SMALL)
    os.truncate(cache / SMALL / "manifest.json", length)
    with pytest.raises(CacheBroken, match=rf"manifest.json is damaged.*permlab data build {SMALL} --force"):
        GraphStore.open(SMALL)
    build(SMALL)
    verify(SMALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format": 99}, "has cache format 99, this version reads 2"), ({"holdout": 7}, "does not match its digest")],
)
def test_an_edited_manifest_is_found(cache: Path, change: dict, message: str) -> None:
    build(SMALL)
    path = cache / SMALL / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CacheBroken, match=message):
        GraphStore.open(SMALL)


def test_a_data_set_that_is_not_built_can_be_built_on_opening() -> None:
    with pytest.raises(CacheMissing, match=f"not built.*permlab data build {SMALL}"):
        GraphStore.open(SMALL)
    assert len(GraphStore.open(SMALL, build_missing=True)) == 200


def test_a_killed_builder_leaves_no_data_set(cache: Path) -> None:
    process = builder(LARGE)
    wait_for(lambda: list(cache.glob(".*.building-*/result/az.npy")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(cache.glob(".*.building-*")), "the builder was already done; there was nothing to kill"
    with pytest.raises(CacheMissing):
        GraphStore.open(LARGE)
    process = builder(LARGE)
    assert process.wait() == 0, process.stderr.read()
    verify(LARGE)
    assert not list(cache.glob(".*.building-*"))


def test_an_interrupted_builder_leaves_nothing(cache: Path) -> None:
    name = "synthetic,graphs=2000000"
    process = builder(name)
    wait_for(lambda: list(cache.glob(".*.building-*/result/az.npy")))
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert [path.name for path in cache.iterdir()] == [f".{name}.lock"]


def test_the_second_of_two_builders_waits(cache: Path) -> None:
    first = builder(LARGE)
    wait_for(lambda: list(cache.glob(".*.building-*")))
    second = builder(LARGE)
    outputs = [process.communicate() for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert f"waiting: {LARGE}" in outputs[1][1]
    assert outputs[0][0] == outputs[1][0]
    verify(LARGE)
    assert sorted(path.name for path in cache.iterdir()) == [f".{LARGE}.lock", LARGE]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("name", ["synthetic,graphs=20000", "synthetic,graphs=700,min_nodes=20"])
def test_a_full_disk_is_named(small_disk: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PERMLAB_CACHE", str(small_disk))
    with pytest.raises(DataError, match=rf"no space left in {small_disk}.*{name}.*PERMLAB_CACHE"):
        build(name)
    assert [path.name for path in small_disk.iterdir()] == [f".{name}.lock"]
    build("synthetic,graphs=100")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PERMLAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=f"cannot write to {tmp_path}/file"):
        build(SMALL)
