"""Where the cache is: a folder, or object storage with local copies."""

import hashlib
import os
import re
from pathlib import Path


def remote_address() -> str | None:
    """`PERMLAB_CACHE`, if it is an address and not a folder."""
    root = os.environ.get("PERMLAB_CACHE", "")
    return root.rstrip("/") if "://" in root else None


def cache_root() -> Path:
    """`PERMLAB_CACHE`, or `~/.cache/permlab`; if the cache is on object storage, the folder of its local copies."""
    variable = "PERMLAB_LOCAL_CACHE" if remote_address() else "PERMLAB_CACHE"
    return Path(os.environ.get(variable) or "~/.cache/permlab").expanduser()


def safe_folder(kind: str, stem: str, text: str) -> str:
    """A folder's name for a data set whose own name may have any character: unique by a digest of `text`."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_.-]', '_', stem)[:40]}-{digest}"
