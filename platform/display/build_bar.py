"""Build data sets and show progress bars."""

from permlab.datasets.cache import build, folder_of, missing
from permlab.datasets.catalogue import parse_name
from permlab.datasets.manifest import FILE_NAME, Manifest
from permlab.platform.display.console import note, progress_bar


def build_with_bar(text: str, force: bool = False) -> Manifest:
    name = parse_name(text)
    with (
        progress_bar(f"building {name.text}", "graphs") as progress,
        progress_bar("downloading", "bytes") as download,
    ):
        return build(text, force=force, progress=progress, download=download, note=note)


def build_if_missing(text: str) -> None:
    """Build it if it is missing or damaged, or if its source is quick to check and has changed."""
    name = parse_name(text)
    with progress_bar(f"checking {name.text}", "bytes") as progress:
        reason = missing(text, progress)
    if reason and (folder_of(name) / FILE_NAME).exists():
        note(f"{reason}; {name.text} is built again")
    if reason or name.source.quick_digest:
        build_with_bar(text)
