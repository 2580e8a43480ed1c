"""Builds a TU data set as PyG's users do: `python -m permlab.platform.bench.plain_build NAME FOLDER`."""

import os
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from torch_geometric.datasets import TUDataset

from permlab.datasets.download import unzip
from permlab.datasets.sources.tu import PARTS


def main(name: str, folder: str) -> None:
    """From the archive in PERMLAB_MIRROR if it is there; else PyG downloads it."""
    archive = Path(os.environ.get("PERMLAB_MIRROR", "")) / f"{name}.zip"
    if archive.is_file():
        unzip(archive, Path(folder) / name / "raw", {f"{name}_{part}.txt" for part in PARTS})
    with redirect_stderr(StringIO()):  # PyG prints its progress
        TUDataset(folder, name, use_node_attr=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
