"""What a run leaves on disk, as it goes: the truth about it, whether or not a tracking server can be reached.

run.json          what it is: name, tags, parameters, data set, engine, numerics
history.jsonl     one line per epoch
config.yaml, predictions.parquet, weights.pt, curves.png, error.txt
result.json       how it ended; written last
delivered-*.json  what a tracking store has of it, one file per store and experiment
"""

import json
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import yaml

from permlab.datasets.manifest import Manifest
from permlab.platform.certificates import measure_certificate
from permlab.platform.checkpoint import save_atomically
from permlab.platform.config import RESULT_VERSION, RunSettings, cell_folder, cell_key
from permlab.platform.json_files import read_json, without_nan, write_json
from permlab.platform.numerics import Numerics, device_of
from permlab.platform.process_settings import process_for_runs
from permlab.platform.settings import describe
from permlab.platform.trial import Result, Trial
from permlab.tasks.data import EvaluationLoader

FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"
SUMMARY = ("dataset", "method", "d", "seed", "epochs", "key", "seconds", "metrics", "engine")


class Record:
    """Writes the files of one run."""

    def __init__(self, settings: RunSettings, manifest: Manifest) -> None:
        self.settings, self.manifest = settings, manifest
        self.key = cell_key(settings, manifest.digest)
        self.folder = cell_folder(settings, self.key)
        self.written = 0  # epochs in history.jsonl

    @property
    def finished(self) -> dict[str, Any] | None:
        """The stored result, if the run is done."""
        result = read_json(self.folder / "result.json")
        return result if result and result["status"] == FINISHED else None

    def forget(self) -> None:
        """As if it had never run; what MLflow has of it stays there."""
        for path in self.folder.glob("*.*"):
            if not path.name.endswith("lock"):
                path.unlink(missing_ok=True)

    def start(self) -> None:
        settings, manifest = self.settings, self.manifest
        for old in ("result.json", "history.jsonl", "error.txt"):
            (self.folder / old).unlink(missing_ok=True)
        tags = {
            "permlab.key": self.key,
            "method": settings.method,
            "d": str(settings.d),
            "seed": str(settings.seed),
            "dataset": manifest.name,
            "dataset.digest": manifest.digest,
            "git.commit": _git_commit(),
            "host": socket.gethostname(),
            "device": device_of(settings.accelerator),
        }
        document = {
            "version": RESULT_VERSION,
            "name": settings.name,
            "experiment": settings.experiment,
            "tags": tags,
            "params": {key: str(value) for key, value, _ in describe(type(settings), settings)},
            "dataset": {"name": manifest.name, "digest": manifest.digest, "graphs": manifest.graphs},
            "model": {
                "task": manifest.task,
                "in_channels": len(manifest.feature_names),
                "max_nodes": manifest.max_nodes,
                "feature_names": manifest.feature_names,
            },
            "started": time.time(),
        }
        write_json(self.folder / "run.json", document)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False))

    def engine(self, engine: dict[str, str], numerics: list[Numerics]) -> None:
        """Who takes the training steps, and the numerics that took part until now."""
        document = read_json(self.folder / "run.json") or {}
        document |= {"engine": engine, "numerics": numerics[-1], "mixed": numerics if len(numerics) > 1 else []}
        document["tags"] |= engine_tags(engine, numerics)
        write_json(self.folder / "run.json", document)

    def epochs(self, history: list[dict[str, float]]) -> None:
        """Append what is new; an epoch whose final metrics came later is written again, whole."""
        with (self.folder / "history.jsonl").open("a") as file:
            for entry in history[max(self.written - 1, 0) :]:
                line = json.dumps(without_nan(entry))
                if line != getattr(self, "last_line", None):
                    file.write(line + "\n")
                    self.last_line = line
        self.written = len(history)

    def finish(self, trial: Trial, result: Result) -> dict[str, Any]:
        """Write the artifacts, then the result; the checkpoint has served."""
        save_atomically(result.weights, self.folder / "weights.pt")
        self._predictions(trial, result)
        with process_for_runs(trial.settings.threads):
            certificate = measure_certificate(trial)
        document = summary(result) | {
            "numerics": result.numerics[-1],
            "mixed": result.numerics if len(result.numerics) > 1 else [],
            "best_epoch": result.best_epoch,
            "parameters": result.parameters,
            "graphs": {part: len(graphs) for part, graphs in trial.data.split._asdict().items()},
            "certificate": without_nan(certificate),
            "tags": engine_tags(result.engine, result.numerics),
            "status": FINISHED,
            "ended": time.time(),
        }
        write_json(self.folder / "result.json", document)
        (self.folder / "checkpoint.pt").unlink(missing_ok=True)
        return document

    def end(self, status: str, message: str, traceback: str = "") -> None:
        """The run ended before its time."""
        if traceback:
            (self.folder / "error.txt").write_text(traceback)
        write_json(self.folder / "result.json", {"status": status, "error": message, "ended": time.time()})

    def _predictions(self, trial: Trial, result: Result) -> None:
        store, data = trial.store, trial.data
        parts = []
        for split, predictions in result.outputs.items():
            graphs = EvaluationLoader(data, split).graphs
            columns = {"graph_id": store.graph_id[graphs], "y": store.y[graphs], "prediction": predictions.numpy()}
            parts.append(pa.table({"split": [split] * len(graphs)} | columns))
        pa.parquet.write_table(pa.concat_tables(parts), self.folder / "predictions.parquet")


def summary(result: Result) -> dict[str, Any]:
    """The document of `train --json`."""
    return without_nan({name: getattr(result, name) for name in SUMMARY})


def engine_tags(engine: dict[str, str], numerics: list[Numerics]) -> dict[str, str]:
    """As tracking stores them: `numerics` is a list, of several if the run is mixed."""
    return {"engine": engine["name"], "engine.reason": engine["reason"], "numerics": json.dumps(numerics)}


@cache
def _git_commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
