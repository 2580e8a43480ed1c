"""MLflow: delivers what runs wrote to disk. The only file that knows MLflow.

Delivery is idempotent and resumes where it stopped; `delivered.json` beside a run says how far it came. While a run
trains, a courier (`python -m permlab.platform.tracking FOLDER`) delivers from a process of its own: no server, slow
or dead, can hold the training up.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from permlab.platform.curves import draw_curves
from permlab.platform.json_files import read_json, write_json

METRICS_A_CALL, PARAMS_A_CALL, DIGEST_LENGTH = 1000, 100, 36  # MLflow's limits
ARTIFACTS = ("config.yaml", "curves.png", "predictions.parquet", "weights.pt", "run.json", "result.json", "error.txt")
PAUSE = 5.0  # seconds between two deliveries of a running run


def tracking_uri(runs: Path) -> str:
    """`MLFLOW_TRACKING_URI`, or an SQLite file in the runs folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(runs / 'mlflow.db').resolve()}"


def connect(runs: Path) -> Any:
    import logging

    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    runs.mkdir(parents=True, exist_ok=True)
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri(runs))


class Delivery:
    """One run's way into MLflow."""

    def __init__(self, folder: Path, client: Any) -> None:
        self.folder, self.client = folder, client
        run = read_json(folder / "run.json")
        if run is None:
            raise FileNotFoundError(folder / "run.json")
        self.run = run
        self.state = read_json(folder / "delivered.json") or {"run_id": None, "epoch": 0, "status": None}

    @property
    def complete(self) -> bool:
        result = read_json(self.folder / "result.json")
        return bool(result and self.state["status"] == result["status"])

    def advance(self) -> None:
        """Deliver all that is new: the run itself, epochs, and at its end artifacts and status."""
        if self.state["run_id"] is None:
            self._create()
        elif self.state["status"] and not (self.folder / "result.json").exists():  # it goes on
            self.client.update_run(self.state["run_id"], status="RUNNING")
            self._save(status=None)
        history = read_history(self.folder)
        self._metrics([entry for entry in history if entry["epoch"] > self.state["epoch"]])
        result = read_json(self.folder / "result.json")
        if result and not self.complete:
            self._finish(result, history)

    def end(self, status: str) -> None:
        self.client.set_terminated(self.state["run_id"], status)
        self._save(status=status)

    def _create(self) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag, Param

        run = self.run
        started = int(run["started"] * 1000)
        created = self.client.create_run(self._experiment(), start_time=started, tags=run["tags"], run_name=run["name"])
        run_id = created.info.run_id
        params = [Param(key, value[:6000]) for key, value in run["params"].items()]
        for first in range(0, len(params), PARAMS_A_CALL):
            self.client.log_batch(run_id, params=params[first : first + PARAMS_A_CALL])
        data = run["dataset"]
        dataset = Dataset(
            name=data["name"],
            digest=data["digest"][:DIGEST_LENGTH],
            source_type="permlab",
            source=json.dumps({"name": data["name"], "digest": data["digest"]}),
            profile=json.dumps({"graphs": data["graphs"]}),
        )
        self.client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])
        self._save(run_id=run_id)

    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = self.run["experiment"]
        found = self.client.get_experiment_by_name(name)
        if found is None:
            uri = self.client.tracking_uri
            local = uri.startswith("sqlite:///")
            location = str(Path(uri.removeprefix("sqlite:///")).parent / "artifacts" / name) if local else None
            try:
                return str(self.client.create_experiment(name, artifact_location=location))
            except MlflowException:  # somebody else was quicker
                found = self.client.get_experiment_by_name(name)
        return str(found.experiment_id)

    def _metrics(self, entries: list[dict[str, Any]]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [
            Metric(key, float(value), now, int(entry["epoch"]))
            for entry in entries
            for key, value in entry.items()
            if key != "epoch" and value is not None
        ]
        for first in range(0, len(metrics), METRICS_A_CALL):
            self.client.log_batch(self.state["run_id"], metrics=metrics[first : first + METRICS_A_CALL])
        if entries:
            self._save(epoch=entries[-1]["epoch"])

    def _finish(self, result: dict[str, Any], history: list[dict[str, Any]]) -> None:
        run_id = self.state["run_id"]
        draw_curves(history, f"{self.run['dataset']['name']}: {self.run['name']}", self.folder / "curves.png")
        for name in ARTIFACTS:
            if (self.folder / name).exists():
                self.client.log_artifact(run_id, str(self.folder / name))
        self.client.set_terminated(run_id, result["status"], int(result["ended"] * 1000))
        self._save(status=result["status"])

    def _save(self, **changes: Any) -> None:
        self.state |= changes
        write_json(self.folder / "delivered.json", self.state)


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The entries of history.jsonl, the last of each epoch, less a line that is being written."""
    try:
        lines = (folder / "history.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    entries = [json.loads(line) for line in lines]
    return list({entry["epoch"]: entry for entry in entries}.values())


def follow(folder: Path) -> None:
    """Deliver a run while it trains, until it ends; if its process dies, mark it as killed."""
    parent = os.getppid()
    delivery = Delivery(folder, connect(folder.parent.parent))
    while not delivery.complete:
        delivery.advance()
        if delivery.complete:
            break
        if os.getppid() != parent and not (folder / "result.json").exists():
            delivery.end("KILLED")
            break
        deadline = time.monotonic() + PAUSE
        while time.monotonic() < deadline and os.getppid() == parent and not (folder / "result.json").exists():
            time.sleep(0.05)


def download_artifacts(run_id: str, runs: Path) -> Path:
    """The artifacts of an MLflow run in a local folder."""
    from permlab.platform.errors import RunError

    try:
        client = connect(runs)
        client.get_run(run_id)
        return Path(client.download_artifacts(run_id, ""))
    except Exception as error:  # MLflow raises its own, requests' and SQLAlchemy's
        reason = str(error).splitlines()[0][:200]
        raise RunError(f"{run_id!r} is no run in {runs}, nor in {tracking_uri(runs)} ({reason})") from None


if __name__ == "__main__":
    follow(Path(sys.argv[1]))
