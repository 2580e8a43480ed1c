"""Names of things that plug in, read without importing any of them.

A readout, backbone, loss, metric, callback or data set is named by a built-in name, by `pyg:Class`, by an entry point,
or by code: `package.module:Name` or `file.py:Name`. A name may carry options: `pyg:GraphMultisetTransformer,k=4`.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from permlab.platform.errors import SettingError
from permlab.platform.settings.yaml_text import load_yaml

PYG = "pyg:"
WAYS = "pyg:Class, package.module:Name or file.py:Name"


@dataclass(frozen=True)
class Named:
    """A name and its options."""

    head: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The one way to write it, whatever the order of its options."""
        return ",".join([self.head, *(f"{key}={_shown(value)}" for key, value in sorted(self.options.items()))])


def parse(text: str) -> Named:
    """`HEAD[,key=value…]`."""
    head, *pairs = re.split(r",(?=[A-Za-z_]\w*=)", text.strip())
    options: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key in options:
            raise SettingError(f"{text!r} sets {key} twice")
        try:
            options[key] = load_yaml(value)
        except ValueError:
            options[key] = value
    return Named(head, options)


def head_of(text: str) -> str:
    return parse(text).head


def _shown(value: Any) -> str:
    """The value as it is read again: words bare, all else as JSON, which is YAML too."""
    bare = str(value)
    if isinstance(value, str) and bare and not re.search(r"[,\[\]{}]", bare):
        with suppress(ValueError):
            if load_yaml(bare) == value:
                return bare
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def is_code(head: str) -> bool:
    """Whether the name is that of a Python object by path: it is loaded only if the user named it in this process."""
    place, colon, name = head.rpartition(":")
    return bool(colon and place and name) and not head.startswith(PYG)


@cache
def entry_names(group: str) -> tuple[str, ...]:
    """The names that installed packages add to `permlab.readouts`, `permlab.backbones`, …"""
    return tuple(sorted({entry.name for entry in entry_points(group=f"permlab.{group}")}))


def entry_code(head: str, group: str) -> str:
    """The code of an entry point, as package.module:Name."""
    (entry, *_) = entry_points(group=f"permlab.{group}", name=head)
    return str(entry.value).partition("[")[0].strip()


def plugs_in(head: str, group: str) -> bool:
    """Whether a name that is not built in can be a plug-in of this group."""
    return is_code(head) or (head.startswith(PYG) and len(head) > len(PYG)) or head in entry_names(group)


def codes_among(texts: Iterable[str]) -> list[str]:
    """The heads, each once, that name code by path."""
    return list(dict.fromkeys(head for text in texts if is_code(head := parse(text).head)))
