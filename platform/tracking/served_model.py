"""Loads a model that MLflow keeps: `mlflow.pyfunc.load_model("models:/NAME@ALIAS")`."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from permlab.datasets.batch import GraphBatch
from permlab.platform.run.predict import FinishedRun


class ServedModel:
    """Takes graphs as flat arrays under the names of GraphBatch: x, edge_index, ptr, and edge_attr if they have it."""

    def __init__(self, folder: Path) -> None:
        self.model = FinishedRun.load(folder).model.eval()

    def predict(self, model_input: dict[str, np.ndarray], params: dict[str, Any] | None = None) -> np.ndarray:
        arrays = {name: torch.as_tensor(np.asarray(array)) for name, array in model_input.items()}
        x, edge_index, ptr = (arrays[name] for name in ("x", "edge_index", "ptr"))
        unknown = torch.full((len(ptr) - 1,), float("nan"))
        batch = GraphBatch(x, edge_index, ptr, unknown, arrays.get("edge_attr"))
        with torch.no_grad():
            predictions: np.ndarray = self.model(batch).float().numpy()
        return predictions


def _load_pyfunc(path: str) -> ServedModel:
    """What MLflow calls."""
    return ServedModel(Path(path))
