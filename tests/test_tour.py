"""docs/tour.ipynb runs from top to bottom, and its stored outputs contain no path of a machine.

`jupyter execute --inplace docs/tour.ipynb` stores new outputs, and docs/tour.png.
"""

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parent.parent / "docs" / "tour.ipynb"


def outputs(book: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in book.cells for output in cell.get("outputs", [])]


def test_the_tour_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_ray: None) -> None:
    for name in ("RAY_ADDRESS", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 2}')
    book = nbformat.read(TOUR, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=300, kernel_name="python3", resources=resources).execute()  # raises if a cell does
    assert (tmp_path / "tour.png").stat().st_size > 10_000
    assert not [output.text for output in outputs(book) if output.get("name") == "stderr"]


def test_the_stored_tour_is_complete_and_contains_no_path_of_a_machine() -> None:
    book = nbformat.read(TOUR, 4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    stored = json.dumps([output for output in outputs(book) if output.output_type != "display_data"])
    assert not re.search(r"(?<![\\w<])/(home|tmp|root|work|Users|usr|opt)/", stored)
