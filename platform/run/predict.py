"""Load the weights of a finished run, and predict with them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from permlab.datasets.splits import Split
from permlab.datasets.store import GraphStore
from permlab.platform.display.console import note
from permlab.platform.errors import RunError
from permlab.platform.files.json_files import load_json, read_json
from permlab.platform.plugins.code import LOADED
from permlab.platform.run.engine_choice import register_kernels
from permlab.platform.run.model import DataFacts, build_model, build_objective
from permlab.platform.run.process_settings import process_for_runs
from permlab.platform.run.split import split_of
from permlab.platform.run.stored_result import WEIGHTS, check_files, read_finished
from permlab.platform.run.training import make_trainer
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.yaml_text import load_yaml
from permlab.tasks.data import GraphData
from permlab.tasks.model import GraphModel, Standardise
from permlab.tasks.objectives import BinaryClassification, MultiClass, MultiLabel, Objective
from permlab.tasks.scaling import ScaleFeatures
from permlab.tasks.task import GraphTask

FIRST_VERSION = 7  # the first version of results whose weights fit this model


@dataclass
class FinishedRun:
    """Settings, model and training task, read from a folder with a run's artifacts."""

    settings: RunSettings
    model: GraphModel
    facts: DataFacts
    objective: Objective
    digest: str  # of the data set that it was trained on

    @classmethod
    def load(cls, folder: Path) -> "FinishedRun":
        run, result = load_json(folder / "run.json"), read_finished(folder)
        weights = folder / WEIGHTS
        if run is None or result is None or not weights.exists():
            raise RunError(f"{folder} holds no finished run")
        check_files(folder, result)
        if run.get("version", 0) < FIRST_VERSION:
            raise RunError(f"the weights in {folder} are of an older version of PermLab; train this run again")
        settings = _settings(run, folder)
        facts = DataFacts.stored(run["model"])
        _say_changed(run.get("codes", {}))
        saved = _weights(weights)
        scale = Standardise(saved["scale.mean"], saved["scale.std"]) if "scale.std" in saved else None
        objective = build_objective(settings, facts, saved.get("scale.std"))
        scaled = "features.shift" in saved
        features = ScaleFeatures(saved["features.shift"], saved["features.width"]) if scaled else None
        model = build_model(settings, facts, objective.outputs, scale, features)
        try:
            model.load_state_dict(saved)
        except RuntimeError:
            raise RunError(f"{weights} does not fit the model that the settings of this run describe") from None
        return cls(settings, model, facts, objective, run["dataset"]["digest"])

    def predict(self, dataset: str) -> tuple[GraphStore, torch.Tensor, dict[str, float]]:
        """The data set, a prediction for every graph in its order, and the metrics over all of it."""
        facts = self.facts
        store = GraphStore.open(dataset, self._target(dataset), build_missing=True)
        manifest = store.manifest
        if manifest.feature_names != facts.feature_names:
            theirs, ours = (", ".join(names[:4]) for names in (manifest.feature_names, facts.feature_names))
            raise RunError(f"{dataset} has other features ({theirs}, …) than the run was trained on ({ours}, …)")
        if manifest.task != facts.task:
            raise RunError(f"{dataset} is a {manifest.task}; the run was trained for {facts.task}")
        if manifest.task == "classification" and manifest.classes > facts.classes:
            raise RunError(f"{dataset} has {manifest.classes} classes; the run was trained for {facts.classes}")
        if len(store.targets) != len(facts.targets):
            raise RunError(f"{dataset} has {len(store.targets)} targets; the run was trained for {len(facts.targets)}")
        limit: int | None = getattr(self.model.readout, "max_nodes", None)
        if limit is not None and manifest.max_nodes > limit:
            raise RunError(f"{dataset} has a graph of {manifest.max_nodes} nodes; this run's readout ends at {limit}")
        task = GraphTask(self.model, self.objective, ("train",))
        everything = torch.arange(len(store)).numpy()
        data = GraphData(store, Split(everything, everything[:0], everything[:0]), ("train",), self.settings.seed)
        train = self.settings.train.model_copy(update={"precision": 32})  # evaluation sets its own precision
        anywhere = self.settings.model_copy(update={"accelerator": "auto", "train": train})
        with process_for_runs(self.settings.threads):
            register_kernels()
            make_trainer(anywhere, []).validate(task, datamodule=data, verbose=False)
        return store, task.outputs["train"], task.measured["train"]

    def parts(self, store: GraphStore) -> np.ndarray:
        """For every graph the part of the run's split that it was in; empty if the run was trained on other data."""
        names = np.full(len(store), "", dtype=object)
        if store.manifest.digest == self.digest:
            for part, graphs in split_of(store, self.settings)._asdict().items():
                names[graphs] = part
        return names

    def measure(self, predictions: torch.Tensor, store: GraphStore, chosen: np.ndarray) -> dict[str, float]:
        """The metrics over the chosen graphs of the data set."""
        return self.objective.measure(predictions[torch.from_numpy(chosen)], torch.from_numpy(store.y[chosen]))

    def probabilities(self, predictions: torch.Tensor) -> torch.Tensor | None:
        """Of logits; None if the predictions are none, or only the user's objective knows what they are."""
        if isinstance(self.objective, MultiClass):
            return predictions.softmax(dim=1)
        return predictions.sigmoid() if isinstance(self.objective, BinaryClassification | MultiLabel) else None

    def _target(self, dataset: str) -> str | None:
        """The run's own target in its own data set, and the default of another."""
        return self.settings.data.target if dataset == self.settings.dataset else None


def _weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        saved: dict[str, torch.Tensor] = torch.load(path, weights_only=True, map_location="cpu")
        return saved
    except Exception as error:  # torch.load raises many kinds for a damaged file
        raise RunError(f"{path} cannot be read ({type(error).__name__})") from None


def _say_changed(codes: dict[str, str]) -> None:
    """Code that the user named may not be what the run was trained with. What the model does not need, such as a
    callback, need not be named.
    """
    for head, digest in codes.items():
        if head in LOADED and LOADED[head].digest != digest:
            note(f"{head} has changed since this run was trained: its predictions may be others")


def _settings(run: dict[str, Any], folder: Path) -> RunSettings:
    try:
        document = run.get("settings") or load_yaml((folder / "config.yaml").read_text())  # as older versions kept them
        return RunSettings.model_validate(document)  # not `read_settings`, which loads code
    except (OSError, UnicodeDecodeError):
        raise RunError(f"{folder} has no settings") from None
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise RunError(f"the settings in {folder / 'run.json'} cannot be read: {reason}") from None


def locate(run: str, runs: Path) -> Path:
    """A run's folder: a path, a cell key (or its beginning) or name in the runs folder, an MLflow id, `models:/…`."""
    if (Path(run) / "run.json").exists():
        return Path(run)
    matches = list(runs.glob(f"cells/{run}*/run.json")) if run.isalnum() else []
    if len(matches) == 1:
        return matches[0].parent
    if len(matches) > 1:
        raise RunError(f"{run} is the beginning of {len(matches)} runs; give more of the key")
    if named := _named(run, runs):
        if len(named) > 1:
            which = ", ".join(f"{document['experiment']}/{key[:8]}" for key, document in named.items())
            raise RunError(f"{run} is the name of {len(named)} runs; give SWEEP/{run}, or a key: {which}")
        return runs / "cells" / next(iter(named))
    from permlab.platform.tracking.read import download_artifacts

    return download_artifacts(run, runs)


def _named(name: str, runs: Path) -> dict[str, dict[str, Any]]:
    """The runs of this name, as sum-d10-s0 or SWEEP/sum-d10-s0, by key."""
    sweep, _, cell = name.rpartition("/")
    planned = (read_json(runs / "sweeps" / sweep / "plan.json") or {}).get("cells", []) if sweep else []
    if planned:
        folders = [runs / "cells" / row["key"] for row in planned if row["name"] == cell]
    else:
        folders = [path.parent for path in runs.glob("cells/*/run.json")]
    documents = {folder.name: read_json(folder / "run.json") or {} for folder in folders}
    wanted = {key: document for key, document in documents.items() if document.get("name") == cell}
    return {key: run for key, run in wanted.items() if planned or not sweep or run["experiment"] == sweep}
