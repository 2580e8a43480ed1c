"""Damaged files are detected and reported in one line, and their cell is run again."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from permlab.datasets.cache import build, folder_of
from permlab.datasets.catalogue import parse_name
from permlab.platform.errors import DamagedFile, RunError
from permlab.platform.files.json_files import load_json, write_json
from permlab.platform.run.cell import run_cell
from permlab.platform.run.histories import history_line, read_history
from permlab.platform.run.predict import FinishedRun
from permlab.platform.run.stored_result import read_result
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.plan import make_plan

DATA = "dataset=synthetic,graphs=60,max_nodes=6,task=classification"
FILES = ["history.jsonl", "predictions.parquet", "result.json", "run.json", "weights.pt"]  # of a finished cell


def settings_of(runs: Path, *words: str) -> RunSettings:
    fixed = [DATA, "train.epochs=4", "train.eval_every=2", "train.engine=plain", "threads=1", f"runs={runs}"]
    return read_settings(RunSettings, [*fixed, *words])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with two finished cells."""
    runs = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("data")))
        for seed in (0, 1):
            run_cell(settings_of(runs, f"seed={seed}"))
    return runs


@pytest.fixture
def cells(finished: Path, tmp_path: Path) -> list[RunSettings]:
    """Two finished cells in a runs folder of the test's own."""
    build(settings_of(tmp_path).dataset)
    shutil.copytree(finished, tmp_path / "runs")
    return [settings_of(tmp_path / "runs", f"seed={seed}") for seed in (0, 1)]


def folder(cell: RunSettings) -> Path:
    return make_plan([cell])[0].folder


def flip(path: Path, place: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)


def single_flips(content: bytes) -> Iterator[bytes]:
    for bit in range(0, 8 * len(content), 3):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def test_a_finished_cell_leaves_five_files(cells: list[RunSettings]) -> None:
    assert sorted(path.name for path in folder(cells[0]).iterdir()) == FILES
    run_cell(cells[0])  # it is known to be finished, and its files stay
    assert sorted(path.name for path in folder(cells[0]).iterdir()) == FILES
    for left in ("checkpoint.part99", "result.part99", "error.txt"):  # of earlier runs that were killed or failed
        (folder(cells[0]) / left).touch()
    (folder(cells[0]) / "result.json").unlink()
    run_cell(cells[0])
    assert sorted(path.name for path in folder(cells[0]).iterdir()) == FILES


def test_no_single_flipped_bit_of_a_document_changes_what_is_read(tmp_path: Path) -> None:
    document = {"name": "größer", "d": 10, "metrics": {"holdout": {"auc": 0.75, "ap": None}}, "ended": 1.5e9}
    path = tmp_path / "result.json"
    write_json(path, document)
    for content in single_flips(path.read_bytes()):
        path.write_bytes(content)
        try:
            loaded = load_json(path)
        except DamagedFile:
            continue
        assert loaded is not None and {key: loaded.get(key) for key in document} == document


def test_no_single_flipped_bit_of_a_history_changes_what_is_read(tmp_path: Path) -> None:
    entries = [{"epoch": 1, "train/running_loss": 0.5}, {"epoch": 2, "train/running_loss": None, "holdout/auc": 0.25}]
    path = tmp_path / "history.jsonl"
    for content in single_flips("".join(map(history_line, entries)).encode()):
        path.write_bytes(content)
        try:
            loaded = read_history(tmp_path)
        except DamagedFile:
            continue
        assert loaded in (entries, entries[:1])  # a last line without its end counts as still being written


def edited(document: dict[str, Any]) -> bytes:
    document["metrics"]["holdout"]["auc"] = 0.999
    return json.dumps(document).encode()


def without_a_field(document: dict[str, Any]) -> bytes:
    return json.dumps({key: value for key, value in document.items() if key not in ("epochs", "seal")}).encode()


def with_a_wrong_type(document: dict[str, Any]) -> bytes:
    return json.dumps({key: value for key, value in document.items() if key != "seal"} | {"seconds": "long"}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        edited,
        without_a_field,
        with_a_wrong_type,
        lambda document: json.dumps(document).encode() + b"\xff",
        lambda document: json.dumps(document).encode()[:-20],
        lambda document: b"",
        lambda document: b"[]",
        lambda document: b"[" * 100_000,
    ],
)
def test_only_the_cell_with_a_damaged_result_is_run_again(
    cells: list[RunSettings], damage: Callable[[dict[str, Any]], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(cells[0]) / "result.json"
    before = read_result(path.parent)
    path.write_bytes(damage(json.loads(path.read_text())))
    plan = make_plan(cells)
    assert sorted(cell.settings.seed for cell in plan if cell.result is None) == [0]
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line and "again" in line
    again = run_cell(cells[0])
    assert before and again["metrics"] == before["metrics"] and again["files"]["history.jsonl"]
    assert all(cell.result for cell in make_plan(cells))


@pytest.mark.parametrize("name", [name for name in FILES if name != "result.json"])
def test_a_cell_with_a_damaged_file_is_run_again(cells: list[RunSettings], name: str) -> None:
    path = folder(cells[0]) / name
    whole = path.read_bytes()
    flip(path)
    assert [cell.settings.seed for cell in make_plan(cells) if cell.result is None] == [0]
    run_cell(cells[0])
    assert all(cell.result for cell in make_plan(cells))
    assert name == "run.json" or path.read_bytes() == whole  # bit for bit; run.json holds its start time


def test_a_history_that_is_damaged_during_a_run_is_whole_at_the_end(tmp_path: Path) -> None:
    cell = settings_of(tmp_path)
    seen = []

    def damage(history: list[dict[str, float]]) -> None:
        if history[-1]["epoch"] == 2:
            flip(folder(cell) / "history.jsonl", 0.1)
            with pytest.raises(DamagedFile):
                read_history(folder(cell))
        seen.append(history[-1]["epoch"])

    run_cell(cell, on_epoch=damage)
    assert [entry["epoch"] for entry in read_history(folder(cell))] == sorted(set(seen)) == [1, 2, 3, 4]


def test_results_of_the_previous_version_are_still_read(cells: list[RunSettings]) -> None:
    """They had neither seals nor digests, and kept the settings in config.yaml."""
    cell_folder = folder(cells[0])
    for name in ("result.json", "run.json"):
        document = json.loads((cell_folder / name).read_text())
        settings = document.pop("settings", None)
        if settings:
            (cell_folder / "config.yaml").write_text(json.dumps(settings))
        document = {key: value for key, value in document.items() if key not in ("seal", "files")}
        (cell_folder / name).write_text(json.dumps(document))
    lines = [json.loads(line) for line in (cell_folder / "history.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seal"]
    (cell_folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert all(cell.result for cell in make_plan(cells))
    assert read_history(cell_folder) == lines
    assert FinishedRun.load(cell_folder).settings.model_copy(update={"runs": cells[0].runs}) == cells[0]


@pytest.mark.parametrize("name", ["weights.pt", "result.json", "run.json"])
def test_a_damaged_run_does_not_predict(cells: list[RunSettings], name: str) -> None:
    flip(folder(cells[0]) / name)
    with pytest.raises(DamagedFile, match=name):
        FinishedRun.load(folder(cells[0]))


def test_a_damaged_cache_is_built_again_before_it_is_used(
    tmp_path: Path, permlab: Callable[..., tuple[int, str, str]]
) -> None:
    words = [DATA, "train.epochs=2", "train.engine=plain", "track=false", "--json"]
    first = json.loads(permlab("train", *words, f"runs={tmp_path / 'a'}")[1])
    flip(folder_of(parse_name(first["dataset"])) / "az.npy", 0.9)
    code, out, err = permlab("train", *words, f"runs={tmp_path / 'b'}")
    second = json.loads(out)
    assert code == 0 and (second["key"], second["metrics"]) == (first["key"], first["metrics"])
    assert sum("az.npy" in line for line in err.splitlines()) == 1


def test_settings_beside_a_stored_run_load_no_code(cells: list[RunSettings], tmp_path: Path) -> None:
    cell_folder = folder(cells[0])
    document = json.loads((cell_folder / "run.json").read_text())
    settings = document.pop("settings") | {"method": f"{tmp_path}/evil.py:Mine"}
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (cell_folder / "config.yaml").write_text(json.dumps(settings))
    for name, content in (
        ("run.json", document),
        ("result.json", json.loads((cell_folder / "result.json").read_text())),
    ):
        kept = {key: value for key, value in content.items() if key not in ("seal", "files")}
        (cell_folder / name).write_text(json.dumps(kept))
    with pytest.raises(RunError, match="--code"):
        FinishedRun.load(cell_folder)
    assert not (tmp_path / "ran").exists()
