"""Passwords stay out of everything that is printed or written down.

A database that needs one finds it in PGPASSWORD or ~/.pgpass; one given in an address is kept only in memory.
"""

import re
import sys
import traceback
from types import TracebackType
from typing import Any

HIDDEN = "***"
# A password should be percent-encoded. One that is not may contain /, @ and quotes: it ends at the last @ before a
# blank. Without such an @ it may contain blanks too, unless it looks like a port.
_IN_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s:/]*):(?:\S*@|(?!\d+(?:[/\s]|$))[^@\n]*@)")
_NAME = r"(?:passw(?:or)?d|pwd|token|secret(?:_access_key)?|api_?key|access_key)"
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
# After = a password may contain , and }; after : these end it, as in JSON and YAML.
_BY_NAME = re.compile(rf"""({_NAME}["']?\s*(?:(=)|:)\s*)(?:{_QUOTED}|(?(2)[^\s&]+|[^\s,}}]+))""", re.IGNORECASE)


def mask(text: str) -> str:
    """The text with *** for every password.

    >>> mask("postgresql://me:secret@db.example/mlflow cannot be reached")
    'postgresql://me:***@db.example/mlflow cannot be reached'
    >>> mask("host=db.example user=me password=secret")
    'host=db.example user=me password=***'
    """
    return _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", _BY_NAME.sub(rf"\1{HIDDEN}", text))


def masked(document: Any) -> Any:
    """A document of lists and dictionaries with *** for every password, safe to write to a file."""
    if isinstance(document, dict):
        return {key: masked(value) for key, value in document.items()}
    if isinstance(document, list):
        return [masked(value) for value in document]
    return mask(document) if isinstance(document, str) else document


def unmasked(address: str) -> str:
    """A database's address without the *** of a file: the password is then taken from PGPASSWORD or ~/.pgpass."""
    user, at, place = address.rpartition("@")
    password = user.partition("://")[2].partition(":")[2]
    if "@" in password:
        raise ValueError("the password contains an @: write it as %40, or leave it out and set PGPASSWORD or ~/.pgpass")
    place = re.sub(rf"(?<=[?&])password={re.escape(HIDDEN)}&?", "", place).rstrip("?&")
    return f"{user.removesuffix(f':{HIDDEN}')}{at}{place}"


def masked_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For sys.excepthook: print the whole traceback of an unexpected error, with passwords masked."""
    sys.stderr.write(mask("".join(traceback.format_exception(kind, error, trace))))
