"""Fixtures that every test may use. No test touches the user's own cache."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

LONGEST = ("test_bench.py", "test_driver.py", "test_ray_job.py", "test_tracking.py", "test_courier.py", "test_view.py")


def pytest_configure(config: pytest.Config) -> None:
    """The same surroundings wherever the tests are started; pytest undoes them when it ends.

    A hook, not a fixture: consoles are created and Hypothesis' settings read while the tests are collected.
    """
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.delenv("COLUMNS", raising=False)  # output as a pipe gets it, whatever the width of the terminal

    profile = settings.get_current_profile_name()
    config.add_cleanup(lambda: settings.load_profile(profile))
    settings.register_profile("permlab", deadline=None)  # the first example may have to compile a loop
    settings.load_profile("permlab")

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts background jobs with Ctrl-C ignored, and child processes inherit that; some tests send it.
        config.add_cleanup(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files first, so that no worker is left waiting for another at the end.

    The first file compiles most of the loops and the second needs none of them: two workers that start with these two
    do not compile the same loops at the same time.
    """
    order = {name: place for place, name in enumerate(LONGEST)}
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
    """One test file at a time: two Ray clusters at once would find each other and compete for the cores."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "ray.lock"):
        yield


@pytest.fixture
def permlab(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    from permlab.platform.cli import main

    def call(*words: str) -> tuple[int, str, str]:
        try:
            code = main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield call
