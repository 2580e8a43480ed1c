"""The model of a finished run in MLflow: logged once, whatever happens, and loaded without pickle."""

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from permlab.datasets.store import GraphStore
from permlab.platform.files.json_files import read_json, write_json
from permlab.platform.run.cell import run_cell
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.tracking.cell_delivery import CellDelivery
from permlab.platform.tracking.store import connect
from tests.platform.calling import DATA, only_cell, only_run

WORDS = [DATA, "method=sort", "d=2", "train.epochs=2", "train.engine=plain", "threads=1"]


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finished run that is in no store."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run_cell(read_settings(RunSettings, [*WORDS, f"runs={tmp_path / 'runs'}"]))
    return only_cell(tmp_path)


def models_in(client):
    return client.search_logged_models([client.get_experiment_by_name("permlab").experiment_id])


def test_predict_and_pyfunc_load_a_registered_model(cell: Path, permlab, monkeypatch) -> None:
    import mlflow

    runs = cell.parent.parent
    client = connect(runs)
    CellDelivery(cell, client).advance()
    (model,) = models_in(client)
    run = only_run(client)
    assert (model.name, model.status, model.source_run_id) == ("sort-d2-s0", "READY", run.info.run_id)
    assert [output.model_id for output in run.outputs.model_outputs] == [model.model_id]
    with monkeypatch.context() as users:  # as a user does it, who has named the store
        users.setenv("MLFLOW_TRACKING_URI", client.tracking_uri)
        version = mlflow.register_model(f"models:/{model.model_id}", "readout").version
    client.set_registered_model_alias("readout", "best", version)
    stored = pyarrow.parquet.read_table(cell / "predictions.parquet").to_pandas().query("split != 'holdout_perm'")
    expected = stored.sort_values("graph_id").prediction.to_numpy()
    for name in ("models:/readout@best", f"models:/readout/{version}", f"models:/{model.model_id}"):
        code, _, err = permlab("predict", name, "--runs", str(runs), "--out", str(runs / "scores.parquet"))
        assert code == 0, err
        scores = pyarrow.parquet.read_table(runs / "scores.parquet").column("prediction").to_numpy()
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    code, out, err = permlab("predict", "models:/readout@worst", "--runs", str(runs))
    assert (code, out, err.count("\n")) == (1, "", 1) and "readout@worst" in err

    place = model.artifact_location
    assert {path.name for path in Path(place).iterdir()} == {
        "MLmodel", "run.json", "result.json", "history.jsonl", "weights.pt"
    }  # fmt: skip
    loaded = mlflow.pyfunc.load_model(place)
    store = GraphStore.open(read_json(cell / "run.json")["settings"]["dataset"])
    batch = store.batch(np.arange(len(store)))
    graphs = {name: getattr(batch, name).numpy() for name in ("x", "edge_index", "ptr")}
    np.testing.assert_allclose(loaded.predict(graphs), expected, atol=1e-4)
    with pytest.raises(mlflow.exceptions.MlflowException, match="ptr"):
        loaded.predict({name: graphs[name] for name in ("x", "edge_index")})


@pytest.mark.parametrize("step", ["log_outputs", "finalize_logged_model", "set_terminated"])
def test_a_killed_courier_leaves_one_model(cell: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    client = connect(cell.parent.parent)

    def die(*words: object, **more: object) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(client, step, die)
            CellDelivery(cell, client).advance()
    assert CellDelivery(cell, client).advance() == "FINISHED"
    (model,) = models_in(client)
    assert model.status == "READY"
    assert [output.model_id for output in only_run(client).outputs.model_outputs] == [model.model_id]


def test_a_run_that_is_trained_again_replaces_its_model(cell: Path) -> None:
    client = connect(cell.parent.parent)
    CellDelivery(cell, client).advance()
    (before,) = models_in(client)
    run_cell(read_settings(RunSettings, [*WORDS, f"runs={cell.parent.parent}"]), fresh=True)
    CellDelivery(cell, client).advance()
    (after,) = models_in(client)
    assert after.model_id != before.model_id and only_run(client).outputs.model_outputs[0].model_id == after.model_id


def test_the_duration_does_not_count_a_pause(cell: Path) -> None:
    """A run is delivered as killed; a day later it is resumed and takes ten seconds, half of them new."""
    client = connect(cell.parent.parent)
    run, result = read_json(cell / "run.json"), read_json(cell / "result.json")
    started = run["started"]
    write_json(cell / "result.json", {"status": "KILLED", "error": "stopped", "ended": started + 5})
    CellDelivery(cell, client).advance()
    assert (only_run(client).info.end_time - only_run(client).info.start_time) == pytest.approx(5000, abs=2)
    later = started + 86_400
    write_json(cell / "run.json", run | {"started": later})
    write_json(cell / "result.json", result | {"ended": later + 5, "seconds": 10.0, "files": {}})
    CellDelivery(cell, client).advance()
    info = only_run(client).info
    assert info.status == "FINISHED" and (info.end_time - info.start_time) == pytest.approx(10_000, abs=2)
