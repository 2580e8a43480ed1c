"""Folders that a user names."""

from pathlib import Path

from permlab.platform.errors import SettingError


def usable_folder(folder: str) -> str:
    """A folder that is there, or can be made: nothing on the way is a file."""
    path = Path(folder)
    try:
        there = next((place for place in (path, *path.parents) if place.exists()), None)
    except OSError as error:
        raise SettingError(f"it cannot be a folder: {error.strerror}") from None
    if "\0" in folder or (there and not there.is_dir()):
        raise SettingError(f"{there} is not a folder; name one, or a place for one")
    return folder


def runs_folder(folder: str) -> Path:
    """The runs folder that a verb is given."""
    return Path(usable_folder(folder))
