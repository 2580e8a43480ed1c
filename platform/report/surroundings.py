"""How a sweep was run: the command, the commit, versions, hardware, numerics."""

import ast
import json
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from permlab.platform.files.secrets import mask
from permlab.platform.report.stored import StoredSweep
from permlab.platform.report.used import told, used
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe

NOT_SHOWN = {"runs"}  # a page that is passed on should not tell folders
LIBRARIES = {"torch": "torch", "numba": "numba", "blas": "", "pyg": "torch-geometric"}  # of the numerics


def surroundings(sweep: StoredSweep) -> list[str]:
    """One line per fact that is stored with the finished cells, by method where they differ."""
    cells = sweep.finished
    commits = _told(cells, "git.commit", lambda commit: {"commit": commit})
    facts = _told(cells, "numerics", numerics_told)
    versions = _told(cells, "versions", json.loads)
    lines = {
        "command": command(sweep.params),
        "commit": commits.get("commit", ""),
        "hardware": _joined(facts, {"cpu": "", "device": "device", "threads": "threads per cell"}),
        "versions": ", ".join(
            text for text in (_joined(versions, {name: name for name in versions}), _joined(facts, LIBRARIES)) if text
        ),
        "numerics": _joined(facts, {"engine": "engine", "code": "digest of the code that makes numbers"}),
    }
    return [f"{name}: {text}" for name, text in lines.items() if text]


def command(params: Mapping[str, str]) -> str:
    """The command that gives these settings, as far as they are not the defaults; empty if none are stored."""
    defaults = {name: str(value) for name, value, _ in describe(SweepSettings)}
    given = {name: text for name, text in params.items() if name not in NOT_SHOWN and defaults.get(name) != text}
    words = [shlex.quote(f"{name}={_word(mask(text))}") for name, text in given.items()]
    return " ".join(["permlab sweep", *words]) if params else ""


def _word(text: str) -> str:
    """A list or a group of settings as YAML on one line; a list of one value as the value."""
    if not text.startswith(("[", "{")):
        return text
    value = ast.literal_eval(text)
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], str):
        value = value[0]
    return yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False).removesuffix("...\n").strip()


def numerics_told(text: str) -> dict[str, Any]:
    """Of a cell that was resumed under others: all of them, one after the other."""
    every = json.loads(text)
    return {name: " then ".join(dict.fromkeys(str(numerics.get(name)) for numerics in every)) for name in every[0]}


def _told(cells: Any, column: str, read: Any) -> dict[str, str]:
    if column not in cells:
        return {}
    rows = zip(cells["method"], cells["d"], cells[column], strict=True)
    values = used((method, d, {k: str(v) for k, v in read(text).items()}) for method, d, text in rows if text)
    return {name: told(places) for name, places in values.items() if set(places) != {"None"}}


def _joined(facts: Mapping[str, str], names: Mapping[str, str]) -> str:
    return ", ".join(f"{label} {facts[name]}".strip() for name, label in names.items() if name in facts)
