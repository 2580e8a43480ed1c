"""Computations that take long, in jobs: those on disk are not run again, others run in this process or as Ray tasks."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from permlab.platform.files.json_files import read_json, write_json


class Job(Protocol):
    """What is computed. Its result, as JSON, says whether it is `final`."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> dict[str, Any]: ...


Result = dict[str, Any]
Runner = Callable[[Callable[[Any], Result], list[Any]], Iterator[Result]]


def in_this_process(function: Callable[[Any], Result], jobs: list[Any]) -> Iterator[Result]:
    return map(function, jobs)


def kept(folder: Path, function: Callable[[Any], Result], jobs: Iterable[Job], runner: Runner) -> Iterator[Result]:
    """The result of every job, those that are in the folder first; new ones that are final are written there."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = []
    for job in jobs:
        stored = read_json(folder / f"{job.name}.json")
        if stored and {field: stored.get(field) for field in job.identity} == job.identity:
            yield stored
        else:
            todo.append(job)
    for result in runner(_Named(function), todo):
        if result["final"]:
            write_json(folder / f"{result['name']}.json", result)
        yield result


class _Named:
    """The function, and the job's name beside its result: a runner returns results in any order."""

    def __init__(self, function: Callable[[Any], Result]) -> None:
        self.function = function

    def __call__(self, job: Job) -> Result:
        return {"name": job.name} | job.identity | self.function(job)
