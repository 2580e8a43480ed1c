"""`permlab predict`: a run by the names that screens print, and what its columns and numbers are."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

DATA = "synthetic,graphs=60,max_nodes=8,task=classification"
WORDS = [f"dataset={DATA}", "train.epochs=2", "track=false", "threads=1", "d=2", "experiment=first"]


@pytest.fixture
def trained(permlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, float]]:
    monkeypatch.chdir(tmp_path)
    return json.loads(permlab("train", *WORDS, "--json")[1])["metrics"]


@pytest.mark.parametrize("name", ["sum-d2-s0", "first/sum-d2-s0"])
def test_each_part_of_the_run_s_own_split_is_scored(permlab, trained, name: str) -> None:
    document = json.loads(permlab("predict", name, "--json")[1])
    assert document["graphs"] == 60 and list(document["splits"]) == ["train", "holdout"]
    for part, metrics in document["splits"].items():
        assert metrics == pytest.approx(trained[part], rel=1e-6)
    out = permlab("predict", name)[1]
    assert "all 60 graphs" in out and "train, 48 graphs" in out and "holdout, 12 graphs" in out


def test_a_classification_has_logits_and_probabilities(permlab, trained) -> None:
    code, out, err = permlab("predict", "sum-d2-s0", "--out", "p.parquet")
    assert code == 0 and "prediction is the logit" in out, err
    table = pd.read_parquet("p.parquet")
    assert list(table.columns) == ["split", "graph_id", "y", "prediction", "probability"]
    assert np.allclose(table["probability"], 1 / (1 + np.exp(-table["prediction"])))
    assert table["split"].value_counts().to_dict() == {"train": 48, "holdout": 12}


def test_other_data_is_said_to_be_other_data(permlab, trained) -> None:
    other = "synthetic,graphs=40,max_nodes=8,task=classification"
    code, out, err = permlab("predict", "sum-d2-s0", "--dataset", other, "--out", "p.parquet")
    assert code == 0 and "another data set" in out and "split" not in pd.read_parquet("p.parquet"), err


def test_a_name_of_several_runs_is_refused_with_their_keys(permlab, trained) -> None:
    permlab("train", *WORDS, "experiment=second", "train.epochs=3")
    code, _, err = permlab("predict", "sum-d2-s0")
    assert code == 1 and "the name of 2 runs" in err and "first/" in err and "second/" in err
    assert permlab("predict", "second/sum-d2-s0")[0] == 0
    assert permlab("predict", "third/sum-d2-s0")[0] == 1
