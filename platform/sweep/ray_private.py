"""The private parts of Ray that PermLab uses, written for Ray 2.60; nothing else imports `ray._private` or
`ray.experimental`.

- `ray_constants.ENABLE_RAY_CLUSTER`: False keeps Ray to the loopback interface of this machine, the default on macOS.
  Ray reads the environment variable of this name only once, when it is imported.
- `worker.print_to_stdstream`: Ray prints errors of the cluster through it, 40 lines each, to our stdout. There is no
  public hook for them.
- `internal_kv`: the key-value store of the cluster's head. The public way for a worker to send news is an actor: a
  process more, which dies if cluster and driver do not use the same authentication.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray._private import ray_constants, worker
from ray.experimental import internal_kv


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


SPACE = b"permlab"  # of our keys


def put_value(key: str, value: bytes) -> None:
    internal_kv._internal_kv_put(key.encode(), value, overwrite=True, namespace=SPACE)


def take_values(prefix: str) -> dict[str, bytes]:
    """The values under these keys; they are removed."""
    taken = {}
    for key in internal_kv._internal_kv_list(prefix.encode(), namespace=SPACE):
        taken[key.decode()] = internal_kv._internal_kv_get(key, namespace=SPACE) or b""
        internal_kv._internal_kv_del(key, namespace=SPACE)
    return taken


def drop_values(prefix: str) -> None:
    internal_kv._internal_kv_del(prefix.encode(), del_by_prefix=True, namespace=SPACE)
