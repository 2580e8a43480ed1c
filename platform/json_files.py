"""JSON files that are whole or not there."""

import json
import math
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all; NaN becomes null."""
    part = path.with_suffix(f".part{os.getpid()}")
    part.write_text(json.dumps(without_nan(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    part.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return document


def without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
