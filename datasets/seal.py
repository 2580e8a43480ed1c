"""JSON documents with a seal, a digest of their own content: it detects an edit or a flipped bit.

A seal detects accidents and careless edits. It is not a signature: anyone who edits a document can seal it again.
"""

import hashlib
import json
from typing import Any

SEAL = "seal"
LENGTH = 16  # hexadecimal digits of the SHA-256: 64 bits


class BrokenSeal(ValueError):
    """The content is not what was sealed."""


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    as_read = json.loads(json.dumps(document))  # tuples become lists and keys strings, as when it is read back
    return as_read | {SEAL: _digest(as_read)}


def unsealed(document: Any) -> dict[str, Any]:
    """The content; a document without a seal comes from an older version and is accepted."""
    if not isinstance(document, dict):
        raise BrokenSeal("it is not a JSON object")
    content = {key: value for key, value in document.items() if key != SEAL}
    if SEAL in document and document[SEAL] != _digest(content):
        raise BrokenSeal("its content does not match its digest")
    return content


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:LENGTH]
