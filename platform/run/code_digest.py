"""A digest of the code that can change a result's numbers, stored with the result."""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOMS = ("permlab.datasets.batch", "permlab.readouts.base", "permlab.tasks.model")  # one file per folder


@cache
def code_digest() -> str:
    """The digest of datasets/, readouts/, tasks/ and platform/run/: its first 12 digits."""
    files = list(Path(__file__).resolve().parent.glob("*.py"))
    for name in ROOMS:  # located, not imported: a driver needs no torch
        spec = find_spec(name)
        assert spec and spec.origin
        files += Path(spec.origin).resolve().parent.rglob("*.py")
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: (file.parent.name, file.name)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def other_code(result: dict[str, Any]) -> str:
    """`made by other code (4f… → 9a…)` if the stored result was; empty if not, or if that is unknown."""
    made_by = (result.get("numerics") or {}).get("code")
    return f"made by other code ({made_by} → {code_digest()})" if made_by and made_by != code_digest() else ""
