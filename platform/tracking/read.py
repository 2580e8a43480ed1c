"""Read a sweep back from MLflow, for reports, and store the report there. `store.py` opens the store."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from permlab.platform.errors import ConfigError, RunError
from permlab.platform.files.json_files import read_json
from permlab.platform.files.secrets import mask
from permlab.platform.report.on_disk import largest_graph
from permlab.platform.report.stored import TAGS, StoredSweep, StoredTuning
from permlab.platform.run.histories import FACTS, evaluated, whole_history
from permlab.platform.tracking.store import connect, search_runs, sqlite_file, store_errors, tracking_uri
from permlab.platform.tracking.sweep_summary import NOTE, REPORT, report_line, with_report
from permlab.platform.tracking.view import ONCE, places_of
from permlab.platform.tuning.choice import FILE as CHOSEN
from permlab.platform.tuning.choice import STUDIES, baselines

REPORT_FILE = "report/report.html"
MODELS = "models:/"


def read_sweep(name: str, runs: Path) -> StoredSweep:
    """The sweep's plan, its cells with what they measured, and their epochs."""
    uri = tracking_uri(runs)
    path = sqlite_file(uri)
    if path and not path.exists():
        raise ConfigError(f"nothing is tracked in {runs}; name another folder with --runs, or set MLFLOW_TRACKING_URI")
    with store_errors(uri):
        client = connect(runs)
        experiment = client.get_experiment_by_name(name)
        stored = list(search_runs(client, experiment.experiment_id)) if experiment else []
        parents = _parents(stored)
        if not parents:
            known = ", ".join(_sweeps(client)) or "there are none; has it been delivered? (permlab deliver)"
            raise ConfigError(f"there is no sweep {name!r} in {uri}; choose from: {known}")
        parent = parents[-1]
        with tempfile.TemporaryDirectory() as folder:
            on_disk = read_json(runs / "sweeps" / name / "plan.json") or {}  # the store's may be older
            plan = on_disk.get("cells") or _plan(client, parent.info.run_id, Path(folder))
            cells = _with_largest_graphs(client, _cells(plan, stored), Path(folder))
            histories = _histories(client, parent.info.run_id, cells, Path(folder))
            chosen = _chosen(client, parent.info.run_id, Path(folder))
            studies = _studies(client, chosen, Path(folder))
            default = next(filter(client.get_experiment_by_name, baselines(name, chosen)), None) if chosen else None
    tuning = None
    if chosen:
        tuning = StoredTuning(chosen, studies, read_sweep(default, runs) if default else None)
    run = parent.info
    params = parent.data.params
    return StoredSweep(name, run.status, mask(uri), run.run_id, cells, histories, tuning=tuning, params=params)


def download_artifacts(run_id: str, runs: Path) -> Path:
    """The artifacts of an MLflow run, or of a model (`models:/NAME@ALIAS`), in a local folder."""
    uri = tracking_uri(runs)
    path = sqlite_file(uri)
    if path and not path.exists():
        raise RunError(f"there is no run {run_id!r} in {runs}, where nothing is tracked")
    try:
        client = connect(runs)
        if run_id.startswith(MODELS):
            return _download_model(client, run_id.removeprefix(MODELS))
        client.get_run(run_id)
        return Path(client.download_artifacts(run_id, ""))
    except Exception as error:  # MLflow raises its own errors, and those of requests and SQLAlchemy
        reason = str(error).splitlines()[0][:200]
        raise RunError(f"there is no run {run_id!r} in {runs}, nor in {tracking_uri(runs)} ({reason})") from None


def _download_model(client: Any, place: str) -> Path:
    """`place`: NAME@ALIAS, NAME/VERSION or a model's id."""
    from mlflow.artifacts import download_artifacts

    model, _, version = place.partition("/")
    name, _, alias = model.partition("@")
    if alias:
        version = client.get_model_version_by_alias(name, alias).version
    if version:
        location = client.get_model_version_download_uri(name, version)
    else:
        location = client.get_logged_model(name).artifact_location
    return Path(download_artifacts(location, tracking_uri=client.tracking_uri))


def keep_report(folder: Path, name: str, runs: Path) -> None:
    """Log the report's files to the sweep's parent run, where MLflow shows them, if the store has the sweep."""
    uri = tracking_uri(runs)
    path = sqlite_file(uri)
    if path and not path.exists():
        return
    with store_errors(mask(uri)):
        client = connect(runs)
        experiment = client.get_experiment_by_name(name)
        query = f"tags.`permlab.sweep` = '{name}' AND tags.`mlflow.runName` = '{name}'"
        parents = _parents(search_runs(client, experiment.experiment_id, query)) if experiment else []
        if parents:
            run_id = parents[-1].info.run_id
            client.log_artifacts(run_id, str(folder), "report")
            line = report_line(experiment.experiment_id, run_id, REPORT_FILE)
            client.set_tag(run_id, REPORT, REPORT_FILE)
            client.set_tag(run_id, NOTE, with_report(parents[-1].data.tags.get(NOTE, ""), line))


def _parents(runs: Iterable[Any]) -> list[Any]:
    """The runs of whole sweeps, the latest last."""
    parents = [run for run in runs if "permlab.sweep" in run.data.tags and "permlab.key" not in run.data.tags]
    return sorted(parents, key=lambda run: run.info.start_time)


def sweep_pages(runs: Path) -> dict[str, str]:
    """By sweep and tuning, the newest experiment first: their places on the dashboard."""
    experiments = connect(runs).search_experiments(order_by=["last_update_time DESC"])
    return {title: place for each in experiments if each.name != "Default" for title, place in places_of(each).items()}


def _sweeps(client: Any) -> list[str]:
    return sorted(experiment.name for experiment in client.search_experiments() if experiment.name != "Default")


def _plan(client: Any, run_id: str, folder: Path) -> list[dict[str, Any]]:
    document = read_json(Path(client.download_artifacts(run_id, "plan.json", str(folder))))
    if document is None:
        raise RunError("the plan stored with the sweep cannot be read")
    cells: list[dict[str, Any]] = document["cells"]
    return cells


def _cells(plan: list[dict[str, Any]], stored: list[Any]) -> pd.DataFrame:
    """One row per planned cell; of several runs of one cell the finished one counts, else the latest.

    Runs of versions before 7 have no numerics; older ones have no prefix before what is measured once.
    """
    runs: dict[str, Any] = {}
    for run in sorted(stored, key=lambda run: (run.info.status == "FINISHED", run.info.start_time)):
        runs[run.data.tags.get("permlab.key", "")] = run
    rows = []
    for cell in plan:
        run = runs.get(cell["key"])
        row = {key: cell[key] for key in ("key", "name", "dataset", "method", "d", "seed")}
        if run is None:
            row |= {"status": "WAITING", "run_id": "", "error": ""} | dict.fromkeys(TAGS, "")
        else:
            row |= {"status": run.info.status, "run_id": run.info.run_id, "params": run.data.params}
            row |= {name: run.data.tags.get(name, "") for name in ("error", *TAGS)}
            row |= {name.removeprefix(ONCE): value for name, value in run.data.metrics.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _with_largest_graphs(client: Any, cells: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """With N of each data set's readouts, from one of its runs: metrics and parameters do not have it."""
    sizes: dict[str, int] = {}
    for dataset, part in cells[cells["status"] == "FINISHED"].groupby("dataset"):
        run_id = part["run_id"].iloc[0]
        if any(item.path == "run.json" for item in client.list_artifacts(run_id)):
            target = folder / run_id
            target.mkdir()
            run = read_json(Path(client.download_artifacts(run_id, "run.json", str(target)))) or {}
            sizes |= {str(dataset): size for size in largest_graph(run).values()}
    return cells.assign(max_nodes=cells["dataset"].map(sizes)) if sizes else cells


def _histories(client: Any, run_id: str, cells: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The parent run's table, written when the sweep last ended; for cells finished later, their own histories.

    Cells that are still under way are left out: a mean over seeds at different epochs would mislead.
    """
    finished = cells[cells["status"] == "FINISHED"]
    table = pd.DataFrame(columns=["key", "epoch"])
    if any(item.path == "histories.parquet" for item in client.list_artifacts(run_id)):
        table = pd.read_parquet(client.download_artifacts(run_id, "histories.parquet", str(folder)))
        table = table[table["key"].isin(finished["key"])].astype({"key": str})
        table = table.drop(columns=list(FACTS), errors="ignore")  # the cells have them
    later = finished[~finished["key"].isin(table["key"])]
    rows = []
    for key, cell_run in zip(later["key"], later["run_id"], strict=True):
        if any(item.path == "history.jsonl" for item in client.list_artifacts(cell_run)):
            target = folder / key
            target.mkdir()
            client.download_artifacts(cell_run, "history.jsonl", str(target))
            rows += [{"key": key} | entry for entry in evaluated(whole_history(target))]
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True) if rows else table


def _chosen(client: Any, run_id: str, folder: Path) -> list[dict[str, Any]]:
    """The tuned settings that the sweep ran with; none if it was not tuned."""
    if not any(item.path == CHOSEN for item in client.list_artifacts(run_id)):
        return []
    document = yaml.safe_load(Path(client.download_artifacts(run_id, CHOSEN, str(folder))).read_text())
    chosen: list[dict[str, Any]] = document["studies"]
    return chosen


def _studies(client: Any, chosen: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The studies that the settings were chosen from, if this store has their tunings."""
    studies: dict[str, dict[str, Any]] = {}
    for tuning in {choice["study"].split("/")[0] for choice in chosen}:
        experiment = client.get_experiment_by_name(tuning)
        query = f"tags.`permlab.tuning` = '{tuning}' AND tags.`mlflow.runName` = '{tuning} tuning'"
        for run in search_runs(client, experiment.experiment_id, query) if experiment else []:
            if any(item.path == STUDIES for item in client.list_artifacts(run.info.run_id)):
                path = client.download_artifacts(run.info.run_id, STUDIES, str(folder))
                studies |= {study["study"]: study for study in (read_json(Path(path)) or {"studies": []})["studies"]}
    return [studies[choice["study"]] for choice in chosen if choice["study"] in studies]
