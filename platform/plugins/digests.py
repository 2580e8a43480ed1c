"""Replace paths to code in settings by the digest of the code's files: this is what the cell key hashes."""

from typing import Any, TypeVar

from pydantic import BaseModel

from permlab.platform.plugins.code import load, loaded
from permlab.platform.plugins.names import Named, entry_code, entry_names, is_code, parse
from permlab.platform.settings.kinds import BUILT_IN

Settings = TypeVar("Settings", bound=BaseModel)


def with_digests(settings: Settings) -> Settings:
    """A copy whose names of plug-ins are `Name@digest`; other names stay."""
    run: Any = settings
    objective = run.objective.model_copy(
        update={
            "kind": _by_digest(run.objective.kind, "objectives"),
            "loss": _by_digest(run.objective.loss, "losses"),
            "metrics": [_by_digest(metric, "metrics") for metric in run.objective.metrics],
        }
    )
    callbacks = [_by_digest(callback, "callbacks") for callback in run.train.callbacks]
    return run.model_copy(
        update={
            "method": _by_digest(run.method, "readouts"),
            "model": run.model.model_copy(update={"backbone": _by_digest(run.model.backbone, "backbones")}),
            "objective": objective,
            "train": run.train.model_copy(update={"callbacks": callbacks}),
        }
    )


def _by_digest(text: str, group: str) -> str:
    named = parse(text)
    digest = code_digest(named.head, group)
    return Named(f"{named.head.rpartition(':')[2]}@{digest}", named.options).text if digest else text


def code_digest(head: str, group: str) -> str:
    """The digest of a plug-in's files; empty for what is built in and for PyG's classes."""
    if is_code(head):
        return loaded(head).digest
    if head in BUILT_IN.get(group, ()) or head not in entry_names(group):
        return ""
    return load(entry_code(head, group)).digest
