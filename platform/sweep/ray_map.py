"""Ray: a function over many jobs, wherever there is room; the results as they come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray

from permlab.platform.sweep.ray_cluster import cluster

RETRIES = 20  # times a job is started again when its worker or node dies


@contextmanager
def mapping(address: str | None) -> Iterator[Callable[[Callable[[Any], Any], list[Any]], Iterator[Any]]]:
    """Yields a `map` that runs on the cluster at `address`, else on this machine."""
    with cluster(address):
        yield _mapped


def _mapped(function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
    """One CPU per job. If the caller stops early, jobs under way are ended."""
    task: Any = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
    waiting, under_way = list(reversed(jobs)), list[Any]()
    try:
        while waiting or under_way:
            while waiting and len(under_way) < max(1, int(ray.cluster_resources().get("CPU", 1))):
                under_way.append(task.remote(function, waiting.pop()))
            ready, under_way = ray.wait(under_way, num_returns=1)
            yield ray.get(ready[0])
    finally:
        for reference in under_way:
            ray.cancel(reference, force=True)


def _call(function: Callable[[Any], Any], job: Any) -> Any:
    return function(job)
