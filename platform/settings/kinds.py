"""Kinds of settings, each checked in one place: names that become folders, folders, data sets."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from permlab.datasets.catalogue import parse_name
from permlab.datasets.errors import DataUsageError
from permlab.platform.errors import SettingError
from permlab.platform.settings.folders import usable_folder

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


FolderName = Annotated[str, AfterValidator(folder_name)]
Folder = Annotated[str, AfterValidator(usable_folder)]
DatasetName = Annotated[str, AfterValidator(_canonical)]
OrNone = BeforeValidator(lambda value: None if value == "none" else value)  # as the help writes it
