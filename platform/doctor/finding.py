"""The result of one check of `permlab doctor`."""

from dataclasses import dataclass

OK, NOTE, BROKEN = "ok", "note", "broken"
PATIENCE = 10  # seconds for an answer over the network


@dataclass(frozen=True)
class Finding:
    """What was checked, its state, the detail, and how to fix it."""

    name: str
    state: str
    detail: str
    fix: str = ""
