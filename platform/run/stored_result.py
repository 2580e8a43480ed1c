"""Read the stored result of a cell, and check it together with the files whose digests it holds."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from permlab.datasets.sources.base import file_digest
from permlab.platform.display.console import note
from permlab.platform.errors import DamagedFile
from permlab.platform.files.json_files import load_json

FILE_NAME = "result.json"
WEIGHTS, PREDICTIONS = "weights.pt", "predictions.parquet"
REMOVABLE = (WEIGHTS, PREDICTIONS)  # may be removed to save space, as tuning does for its trials
FINISHED, FAILED, STOPPED = "FINISHED", "FAILED", "STOPPED"
KILLED = "KILLED"  # MLflow's word for a run that was stopped, and ours in results of older versions


class _Ended(BaseModel):
    """Fields of every result, also of a tuning's trial."""

    model_config = ConfigDict(strict=True)

    status: Literal["FINISHED", "FAILED", "STOPPED", "KILLED"]
    ended: float


class _Finished(_Ended):
    """Fields that the rest of the code reads from the result of a finished cell."""

    dataset: str
    method: str
    d: int
    seed: int
    epochs: int
    key: str
    seconds: float
    metrics: dict[str, dict[str, float | None]]
    files: dict[str, str] = {}  # their SHA-256; results of older versions have none


def read_result(folder: Path) -> dict[str, Any] | None:
    """The document of result.json, None while the run has not ended; DamagedFile if it changed since it was written."""
    document = load_json(folder / FILE_NAME)
    if document is not None:
        _check(document, _Ended, folder / FILE_NAME)
    return document


def read_finished(folder: Path) -> dict[str, Any] | None:
    """The result of a finished cell, None if it is not finished; DamagedFile as above. Does not check its files."""
    result = read_result(folder)
    if result is None or result["status"] != FINISHED:
        return None
    _check(result, _Finished, folder / FILE_NAME)
    return result


def _check(document: dict[str, Any], fields: type[BaseModel], path: Path) -> None:
    try:
        fields.model_validate(document)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        raise DamagedFile(path, f"{field} is missing or wrong") from None


def check_files(folder: Path, result: dict[str, Any]) -> None:
    """Compare the run's files with the digests in its result; DamagedFile names the first that differs.

    Results of older versions have no digests.
    """
    for name, digest in result.get("files", {}).items():
        path = folder / name
        try:
            if file_digest(path) != digest:
                raise DamagedFile(path, "its content does not match its digest")
        except FileNotFoundError:
            if name not in REMOVABLE:
                raise DamagedFile(path, "it is missing") from None
        except OSError as error:
            raise DamagedFile(path, f"it cannot be read ({error.strerror})") from None


def finished_result(folder: Path) -> dict[str, Any] | None:
    """The result if the cell is done and its files are whole; None, with a note, if they are damaged."""
    try:
        result = read_finished(folder)
        if result:
            check_files(folder, result)
        return result
    except DamagedFile as damage:
        note(f"{damage}; this cell is run again")
        return None


def outcome(result: dict[str, Any]) -> dict[str, float | None]:
    """Facts that are known only at the end of a run: cost, sizes of the splits, certificate."""
    facts = {f"cost/{name}": result.get(name) for name in ("seconds", "parameters")}
    for group in ("graphs", "certificate"):
        facts |= {f"{group}/{name}": value for name, value in result.get(group, {}).items()}
    return facts
