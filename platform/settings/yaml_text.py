"""YAML as settings need it: numbers and words as people write them, and nothing that explodes."""

import re
from typing import Any

import yaml

MOST_CHARACTERS, MOST_VALUES, MOST_LEVELS = 1_000_000, 100_000, 20


class _Loader(yaml.SafeLoader):
    """The scalars of YAML 1.2: 010 is ten, 1e-3 a number; 2026-11-16, 12:30 and `on` are words."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  PyYAML's name; not those of YAML 1.1
    _merged = 0  # values that `<<` has copied so far

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Copies what `<<` names into the mapping; merges of merges would grow without end."""
        before = len(node.value)
        super().flatten_mapping(node)
        self._merged += max(0, len(node.value) - before)
        if self._merged > MOST_VALUES:
            raise TooLarge(f"holds more than {MOST_VALUES:,} values")


class TooLarge(ValueError):
    """More than settings can be."""


_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}
for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))


def load_yaml(text: str) -> Any:
    """What the text says; a ValueError of one line if it is not YAML, or more than settings can be."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"has {len(text):,} characters; the limit is {MOST_CHARACTERS:,}")
    try:
        tree = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError(f"has more than {MOST_LEVELS} levels") from None
    except TooLarge:
        raise
    except ValueError:  # Python's own limit
        raise ValueError("holds a number of more than 4,300 digits") from None
    check_size(tree)
    return tree


def check_size(tree: Any) -> None:
    """Refuse what has no end (a value that holds itself) or would fill the memory (aliases of aliases)."""
    waiting, values = [(tree, 0)], 0
    while waiting:
        value, level = waiting.pop()
        values += 1
        if level > MOST_LEVELS:
            raise ValueError(f"has more than {MOST_LEVELS} levels")
        if values > MOST_VALUES:
            raise ValueError(f"holds more than {MOST_VALUES:,} values")
        if isinstance(value, dict):
            if odd := [key for key in value if not isinstance(key, str)]:
                raise ValueError(f"has the key {odd[0]}, which is not a word")
            waiting += [(inner, level + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, level + 1) for inner in value]
        elif not isinstance(value, str | int | float | None):
            raise ValueError(f"holds a {type(value).__name__}; settings are numbers, words, lists and groups")
