"""Settings in which code stands by the digest of its files instead of by its path: what the cell key hashes."""

from typing import Any, TypeVar

from pydantic import BaseModel

from permlab.platform.plugins.code import load, loaded
from permlab.platform.plugins.names import Named, entry_code, entry_names, is_code, parse

Settings = TypeVar("Settings", bound=BaseModel)


def with_digests(settings: Settings) -> Settings:
    """A copy whose names of plug-ins are `Name@digest`; the settings themselves if they name none."""
    run: Any = settings
    names = {text: _by_digest(text) for text in run.plugs}
    if all(text == by_digest for text, by_digest in names.items()):
        return settings
    objective = run.objective.model_copy(
        update={
            "kind": names[run.objective.kind],
            "loss": names[run.objective.loss],
            "metrics": [names[metric] for metric in run.objective.metrics],
        }
    )
    return run.model_copy(
        update={
            "method": names[run.method],
            "model": run.model.model_copy(update={"backbone": names[run.model.backbone]}),
            "objective": objective,
            "train": run.train.model_copy(update={"callbacks": [names[each] for each in run.train.callbacks]}),
        }
    )


def _by_digest(text: str) -> str:
    named = parse(text)
    digest = code_digest(named.head)
    return Named(f"{named.head.rpartition(':')[2]}@{digest}", named.options).text if digest else text


def code_digest(head: str) -> str:
    """The digest of the files behind a name; empty for what is built in and for PyG's classes."""
    if is_code(head):
        return loaded(head).digest
    for group in ("readouts", "backbones", "objectives"):
        if head in entry_names(group):
            return load(entry_code(head, group)).digest
    return ""
