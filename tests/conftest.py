"""Fixtures that every test may use. No test touches the user's own cache."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

os.environ.pop("COLUMNS", None)  # what is printed is for a pipe, whatever terminal the tests are run from

settings.register_profile("permlab", deadline=None)  # what is compiled is, where the first example needs it
settings.load_profile("permlab")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background of a shell, where Ctrl-C is ignored, and by every child too; some tests send it.
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.default_int_handler)


_LONGEST = ("test_bench.py", "test_driver.py", "test_ray_job.py", "test_tracking.py", "test_courier.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest first, so that in the end no worker waits for another.

    The first one has most loops compiled; the second one needs none, so that they are not compiled twice at once.
    """
    order = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PERMLAB_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For small matrices: pytest already runs one process per core."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder that holds the real PROTEINS_full.zip."""
    folder = os.environ.get("PERMLAB_MIRROR", "")
    if not (Path(folder) / "PROTEINS_full.zip").is_file():
        pytest.skip("PERMLAB_MIRROR does not name a folder with PROTEINS_full.zip")
    return Path(folder)


@pytest.fixture(scope="module")
def one_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray clusters of two test files at once would find each other, and share two cores: one file at a time."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "ray.lock"):
        yield


@pytest.fixture
def permlab(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run the command line in this process; gives exit code, stdout, stderr."""
    from permlab.platform.cli import main

    def call(*words: str) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield call
