"""What `permlab doctor` says of one thing that it looked at."""

from dataclasses import dataclass

OK, NOTE, BROKEN = "ok", "note", "broken"
PATIENCE = 10  # seconds for an answer over the network


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, what was found, and how to fix it."""

    name: str
    state: str
    found: str
    mend: str = ""
