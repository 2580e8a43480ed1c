"""The private parts of Ray that PermLab uses, written for Ray 2.60; nothing else imports `ray._private`.

- `ray_constants.ENABLE_RAY_CLUSTER`: False keeps Ray to the loopback interface of this machine, the default on macOS.
  Ray reads the environment variable of this name only once, when it is imported.
- `worker.print_to_stdstream`: Ray prints errors of the cluster through it, 40 lines each, to our stdout. There is no
  public hook for them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray._private import ray_constants, worker


@contextmanager
def loopback(only: bool) -> Iterator[None]:
    """If `only`, a Ray that is started in this block listens on this machine only."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = before and not only
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def print_errors_with(show: Callable[..., Any]) -> None:
    """`show` gets what Ray would print: a dictionary with `lines`."""
    worker.print_to_stdstream = show
