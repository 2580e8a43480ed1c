"""From words and keywords to settings: recipes, YAML files and `key=value`, later ones over earlier ones."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from permlab.datasets.catalogue import register_factory
from permlab.platform.errors import ConfigError
from permlab.platform.plugins.code import load, register
from permlab.platform.plugins.names import entry_code, entry_names, head_of
from permlab.platform.settings.kinds import data_codes
from permlab.platform.settings.yaml_text import check_size, load_yaml

Model = TypeVar("Model", bound=BaseModel)
RECIPES = Path(__file__).parent / "recipes"


def recipes() -> list[str]:
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def read_settings(
    model: type[Model], words: Sequence[str | Path | BaseModel], keywords: Mapping[str, Any] | None = None
) -> Model:
    """`words` are recipe names, YAML files, key=value pairs and settings; keywords are `d=1`, `train={"epochs": 3}`
    and `**{"train.epochs": 3}`.
    """
    tree: dict[str, Any] = {}
    for word in words:
        if isinstance(word, BaseModel):
            _merge(tree, word.model_dump())
            continue
        key, equals, text = str(word).partition("=")
        if equals and not _is_file(str(word)):
            _set(tree, key, _value(model, key, text))
        else:
            _merge(tree, _read_file(str(word)))
    for key, value in (keywords or {}).items():
        nested: dict[str, Any] = {}
        _set(nested, key, _plain(value))
        _merge(tree, nested)
    load_data(tree.get("dataset"))
    settings = check(model, tree)
    load_named(settings)
    return settings


def load_named(settings: BaseModel) -> None:
    """Load the code that the settings name: the user wrote them. Settings of a stored run are read without this."""
    for head in getattr(settings, "codes", []):
        load(head)


def load_data(names: Any) -> None:
    """Load the code that makes these data sets, before their names are checked; other values are left alone."""
    texts = [name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)]
    for head in data_codes(texts):
        code = load(head)
        register_factory(head, code.value, code.digest)
    for text in texts:
        load_installed(text)


def load_installed(dataset: str) -> None:
    """Load the code of a data set that an installed package adds by an entry point."""
    head = head_of(dataset)
    if head in entry_names("sources"):
        code = load(entry_code(head, "sources"))
        register_factory(head, code.value, code.digest)


def _plain(value: Any) -> Any:
    """A value from Python as YAML would have it: lists, not ranges or arrays."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_plain(part) for part in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, type) or callable(value) or type(value).__module__ != "builtins":
        return register(value)  # a plug-in
    raise ConfigError(f"{_short(value)!r} is a {type(value).__name__}; settings are numbers, words, lists and plug-ins")


def check(model: type[Model], tree: dict[str, Any]) -> Model:
    """Validate; all problems in one line, each with the valid choices."""
    try:
        check_size(tree)
        return model.model_validate(tree)
    except ValidationError as error:
        problems = dict.fromkeys(_say(model, problem) for problem in error.errors())
        raise ConfigError("; ".join(problems)) from None
    except ValueError as error:
        raise ConfigError(f"the call {error}") from None


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # too long for a file's name
        return False


def _read_file(word: str) -> dict[str, Any]:
    if _is_file(word):
        path = Path(word)
    elif word in recipes():
        path = RECIPES / f"{word}.yaml"
    else:
        choices = f"neither key=value, nor a YAML file, nor a recipe ({', '.join(recipes())})"
        raise ConfigError(f"{_short(word)!r} is {choices}")
    try:
        tree = load_yaml(path.read_text(encoding="utf-8")) or {}
    except UnicodeDecodeError:
        raise ConfigError(f"{word} is not UTF-8 text") from None
    except ValueError as error:
        raise ConfigError(f"{word} {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{word} must hold settings (key: value), not a {type(tree).__name__}")
    return tree


def _value(model: type[BaseModel], key: str, text: str) -> Any:
    """The text as YAML reads it; where the setting is a word, or it is not YAML, the text itself."""
    field = _field(model, key.split("."))
    if field is not None and field.annotation is str:
        return text
    try:
        return load_yaml(text)
    except ValueError:
        return text


def _set(tree: dict[str, Any], key: str, value: Any) -> None:
    *groups, last = key.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{key}: {group!r} is a value, not a group of settings")
    tree[last] = value


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _say(model: type[BaseModel], problem: Any) -> str:
    path = [str(part) for part in problem["loc"]]
    while path and problem["type"] != "extra_forbidden" and _field(model, path) is None:
        path.pop()  # a place in a list, or a kind that the value could have been of
    key = ".".join(path)
    if problem["type"] == "extra_forbidden":
        fields = list((_group(model, path[:-1]) or model).model_fields)
        elsewhere = [known for known, _, _ in describe(model) if known.rpartition(".")[2] == path[-1]]
        close = elsewhere or [".".join([*path[:-1], name]) for name in difflib.get_close_matches(path[-1], fields, n=1)]
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        return f"unknown setting {_short(key)}: {hint}choose from {', '.join(fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not key:
        return message
    given = problem["input"]
    return f"{key}: {message}" if isinstance(given, dict) else f"{key}={_short(given)}: {message}"


def _short(value: Any, most: int = 80) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[:most]}…"


def _group(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    """The group of settings with this name, if there is one."""
    for part in path:
        if part not in model.model_fields:
            return None
        annotation = model.model_fields[part].annotation
        kind = next(iter(get_args(annotation)), annotation)  # of `Group | None` the group
        if not isinstance(kind, type) or not issubclass(kind, BaseModel):
            return None
        model = kind
    return model


def _field(model: type[BaseModel], path: list[str]) -> FieldInfo | None:
    """The setting with this name, if there is one."""
    group = _group(model, path[:-1])
    return group.model_fields.get(path[-1]) if group else None


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


def settings_help(model: type[BaseModel], leave_out: Sequence[str] = ()) -> str:
    """A line per setting: its key, what it does, its default."""
    rows = [row for row in describe(model) if row[0] not in leave_out]
    width = max(len(key) for key, _, _ in rows)
    lines = [f"  {key:<{width}}  {text} ({'none' if value is None else value})" for key, value, text in rows]
    return "\n".join(["settings:", *lines])
