"""Passwords in addresses stay out of everything that is printed."""

import re
import sys
import traceback
from types import TracebackType

# The password of user:password@host ends at the last @ before a blank or quote: one that is not percent-encoded, as it
# should be, may hold / and @ itself.
_USER_PART = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://[^\s:/@'"]*):[^\s'"]*@""")
_QUERY_PART = re.compile(r"""([?&](?:password|passwd|sslpassword|token)=)[^&\s'"]+""", re.IGNORECASE)


def mask(text: str) -> str:
    """The text with *** for every password in an address.

    >>> mask("postgresql://me:secret@db.example/mlflow cannot be reached")
    'postgresql://me:***@db.example/mlflow cannot be reached'
    """
    return _QUERY_PART.sub(r"\1***", _USER_PART.sub(r"\1:***@", text))


def masked_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For sys.excepthook: what nobody expected is shown whole, but for passwords."""
    sys.stderr.write(mask("".join(traceback.format_exception(kind, error, trace))))
