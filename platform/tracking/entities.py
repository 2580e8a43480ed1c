"""A run's source, its data set and its model as MLflow describes them."""

import json
import re
from pathlib import Path
from typing import Any

from permlab.platform.files.json_files import load_json
from permlab.platform.run.stored_result import PREDICTIONS, WEIGHTS

DIGEST_LENGTH = 8  # as short as MLflow's own; the whole digest is in a tag
MODEL_FILES = ("run.json", "result.json", "history.jsonl", WEIGHTS)  # what FinishedRun loads
LOADER = "permlab.platform.tracking.served_model"


def source_tags(command: str, commit: str | None) -> dict[str, str]:
    tags = {"mlflow.source.name": f"permlab {command}", "mlflow.source.type": "LOCAL"}
    return tags | ({"mlflow.source.git.commit": commit} if commit and commit != "unknown" else {})


def dataset_input(run: dict[str, Any]) -> Any:
    """The data set that a run was trained on: its name, short digest, number of graphs, and columns."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    data, facts = run["dataset"], run.get("model", {})
    columns = [
        *({"name": name, "type": "float", "required": True} for name in facts.get("feature_names", [])),
        *({"name": f"edge {i}", "type": "float", "required": True} for i in range(facts.get("edge_channels", 0))),
        *({"name": name, "type": "float", "required": False} for name in facts.get("targets", [])),
    ]
    dataset = Dataset(
        name=data["name"],
        digest=data["digest"][:DIGEST_LENGTH],
        source_type="permlab",
        source=json.dumps({"name": data["name"], "digest": data["digest"]}),
        schema=json.dumps({"mlflow_colspec": columns}) if columns else None,
        profile=json.dumps({"num_rows": data["graphs"]}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def model_name(run: dict[str, Any]) -> str:
    """Without the characters that MLflow does not allow: a method may be `file.py:Class`."""
    return re.sub(r"[/:.%\"']", "-", run["name"])


def model_text(folder: Path, model_id: str, run_id: str) -> str:
    """The file `MLmodel` beside the files of the run in `folder`: its signature, and what loads it."""
    from mlflow.models import Model

    model = Model(run_id=run_id, model_id=model_id, signature=_signature(folder))
    model.add_flavor("python_function", loader_module=LOADER)
    return str(model.to_yaml())


def _signature(folder: Path) -> Any:
    """Graphs as flat tensors, as in GraphBatch; the predictions as in predictions.parquet."""
    import numpy as np
    import pyarrow.parquet
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    facts = (load_json(folder / "run.json") or {})["model"]
    real, whole = np.dtype("float32"), np.dtype("int64")
    inputs: list[Any] = [
        TensorSpec(real, (-1, facts["in_channels"]), "x"),
        TensorSpec(whole, (2, -1), "edge_index"),
        TensorSpec(whole, (-1,), "ptr"),
    ]
    if channels := facts.get("edge_channels"):  # results of older versions have none
        inputs.append(TensorSpec(real, (-1, channels), "edge_attr"))
    columns = [
        name for name in pyarrow.parquet.read_schema(folder / PREDICTIONS).names if name.startswith("prediction")
    ]
    shape = (-1,) if columns == ["prediction"] else (-1, len(columns))
    return ModelSignature(Schema(inputs), Schema([TensorSpec(real, shape)]))
