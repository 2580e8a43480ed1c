"""JSON files, written atomically, with a seal that shows whether they have changed since."""

import json
import math
from pathlib import Path
from typing import Any

from permlab.datasets.seal import BrokenSeal, sealed, unsealed
from permlab.platform.errors import DamagedFile
from permlab.platform.files.secrets import masked
from permlab.platform.files.whole_file import whole_file


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write the whole file or nothing; NaN and infinity become null, a password becomes ***."""
    text = json.dumps(sealed(masked(without_nan(document))), indent=2, ensure_ascii=False, allow_nan=False)
    with whole_file(path) as file:
        file.write(f"{text}\n".encode())


def load_json(path: Path) -> dict[str, Any] | None:
    """The document, or None if there is no file; raises DamagedFile if it is unreadable or has changed."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DamagedFile(path, "it is not text") from None
    return parse_sealed(text, path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The document, or None if the file is missing or damaged: for files that can simply be written again."""
    try:
        return load_json(path)
    except DamagedFile:
        return None


def parse_sealed(text: str, path: Path) -> dict[str, Any]:
    """The content of a sealed document or line; raises DamagedFile, which names the path, if it has changed."""
    try:
        return unsealed(json.loads(text))
    except BrokenSeal as error:
        raise DamagedFile(path, str(error)) from None
    except (ValueError, RecursionError):
        raise DamagedFile(path, "it is not JSON") from None


def without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
