"""From words to settings: recipes, YAML files and `key=value`, later ones over earlier ones."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from permlab.platform.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
RECIPES = Path(__file__).parent / "recipes"


def recipes() -> list[str]:
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def read_settings(model: type[Model], words: Sequence[str]) -> Model:
    """`words` are recipe names, YAML files and key=value pairs."""
    tree: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if equals and not word.endswith((".yaml", ".yml")):
            _set(tree, key, text)
        else:
            _merge(tree, _read_file(word))
    return check(model, tree)


def check(model: type[Model], tree: dict[str, Any]) -> Model:
    """Validate; all problems in one line, each with the valid choices."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        problems = "; ".join(_say(model, problem) for problem in error.errors())
        raise ConfigError(problems) from None


def _read_file(word: str) -> dict[str, Any]:
    path = Path(word)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ConfigError(f"{word} is not UTF-8 text") from None
    elif word in recipes():
        text = (RECIPES / f"{word}.yaml").read_text(encoding="utf-8")
    else:
        raise ConfigError(f"{word!r} is neither key=value, nor a YAML file, nor a recipe ({', '.join(recipes())})")
    try:
        tree = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{word} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{word} must hold settings (key: value), not a {type(tree).__name__}")
    return tree


def _set(tree: dict[str, Any], key: str, text: str) -> None:
    *groups, last = key.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{key}: {group!r} is a value, not a group of settings")
    try:
        tree[last] = yaml.safe_load(text)
        if isinstance(tree[last], str):  # YAML 1.1 reads 1e-3 as text
            tree[last] = float(text)
    except (yaml.YAMLError, ValueError):
        tree[last] = text


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _say(model: type[BaseModel], problem: Any) -> str:
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    if problem["type"] == "extra_forbidden":
        fields = list(_group(model, path[:-1]).model_fields)
        close = difflib.get_close_matches(path[-1], fields, n=1)
        hint = f"did you mean {'.'.join([*path[:-1], close[0]])}? " if close else ""
        return f"unknown setting {key}: {hint}choose from {', '.join(fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not key:
        return message
    return f"{key}={problem['input']}: {message}" if not isinstance(problem["input"], dict) else f"{key}: {message}"


def _group(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    for part in path:
        kind = next(iter(get_args(model.model_fields[part].annotation)), model.model_fields[part].annotation)
        assert isinstance(kind, type) and issubclass(kind, BaseModel)
        model = kind
    return model


def describe(model: type[BaseModel], values: BaseModel | None = None, prefix: str = "") -> list[tuple[str, Any, str]]:
    """(key, value, what it does) of every setting; values default to the defaults."""
    rows: list[tuple[str, Any, str]] = []
    for name, field in model.model_fields.items():
        value = getattr(values, name) if values is not None else field.get_default(call_default_factory=True)
        if isinstance(value, BaseModel):
            rows += describe(type(value), value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value, field.description or ""))
    return rows
