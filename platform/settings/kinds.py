"""Kinds of settings, each checked in one place: names that become folders, folders, data sets, splits, plug-ins."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from permlab.datasets.catalogue import SOURCES, parse_name
from permlab.datasets.errors import DataUsageError
from permlab.platform.errors import SettingError
from permlab.platform.plugins.names import WAYS, codes_among, entry_names, is_code, parse, plugs_in
from permlab.platform.settings.folders import usable_folder
from permlab.readouts.names import NAMES
from permlab.tasks.metrics import BY_KIND
from permlab.tasks.names import BACKBONE_NAMES, LOSS_NAMES

LONGEST = 100  # characters of a name; file systems take 255, and names get endings


def folder_name(name: str) -> str:
    """The name itself, if it can be a folder of its own and leads to no other."""
    if len(name) > LONGEST or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        shown = name if len(name) <= LONGEST else f"{name[:20]}…"
        raise SettingError(
            f"{shown!r} cannot be a name, which becomes a folder; choose up to {LONGEST} letters, digits and . _ -, "
            "a letter or digit first"
        )
    return name


def _canonical(dataset: str) -> str:
    """The one name of a data set, whatever the order of its options."""
    try:
        return parse_name(dataset).text
    except DataUsageError as error:
        raise SettingError(str(error)) from None


def data_codes(names: Iterable[str]) -> list[str]:
    """The heads, each once, of data sets that are made by a user's code."""
    return [head for head in codes_among(names) if head.partition(":")[0] not in SOURCES]


BUILT_IN = {
    "readouts": NAMES,
    "backbones": BACKBONE_NAMES,
    "objectives": ("auto", *BY_KIND),
    "losses": ("auto", *LOSS_NAMES),
}


def _plug(text: str, group: str, one: str) -> str:
    """A built-in name, or one that may be a plug-in; its options in one order."""
    named, known = parse(text), BUILT_IN[group]
    if named.head not in known and not plugs_in(named.head, group):
        near = get_close_matches(named.head, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        choices = ", ".join([*known, *entry_names(group)])
        raise SettingError(f"unknown {one} {named.head!r}: {hint}choose from {choices}, or {WAYS}")
    return named.text


def method_name(text: str) -> str:
    """The name of a readout, in the one way to write it."""
    return _plug(text, "readouts", "readout")


def _class_name(text: str) -> str:
    """The name of a TorchMetrics class, or code by path."""
    head = parse(text).head
    if not (head.isidentifier() or plugs_in(head, "metrics")):
        raise SettingError(f"{text!r} is neither a class of TorchMetrics, such as MatthewsCorrCoef, nor {WAYS}")
    return text


def _by_path(text: str) -> str:
    if not is_code(parse(text).head):
        raise SettingError(f"{text!r} is not a callback by path, such as file.py:MyCallback")
    return text


SCAFFOLD, STRATIFIED = "scaffold", "stratified:"
MOST_FOLDS = 1000


def _splits(text: str) -> str:
    """scaffold, stratified:K, or the whole path of a file of folds, which may also lie in the mirror."""
    folds = text.removeprefix(STRATIFIED)
    if text == SCAFFOLD or (text != folds and folds.isdecimal() and 2 <= int(folds[:9]) <= MOST_FOLDS):
        return text
    if not text.endswith(".json"):
        raise SettingError(f"choose scaffold, stratified:K with K from 2 to {MOST_FOLDS}, or a file that ends in .json")
    mirrored = Path(os.environ.get("PERMLAB_MIRROR", ""), "splits", text)
    path = Path(text).expanduser()
    return str((mirrored if not path.exists() and mirrored.is_file() else path).resolve())


SplitsName = Annotated[str, AfterValidator(_splits)]
MethodName = Annotated[str, AfterValidator(method_name)]
BackboneName = Annotated[str, AfterValidator(lambda text: _plug(text, "backbones", "backbone"))]
ObjectiveName = Annotated[str, AfterValidator(lambda text: _plug(text, "objectives", "objective"))]
LossName = Annotated[str, AfterValidator(lambda text: _plug(text, "losses", "loss"))]
MetricName = Annotated[str, AfterValidator(_class_name)]
CallbackName = Annotated[str, AfterValidator(_by_path)]
FolderName = Annotated[str, AfterValidator(folder_name)]
Folder = Annotated[str, AfterValidator(usable_folder)]
DatasetName = Annotated[str, AfterValidator(_canonical)]
OrNone = BeforeValidator(lambda value: None if value == "none" else value)  # as the help writes it
