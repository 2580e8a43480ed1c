import json
from pathlib import Path

import pytest

NAME = "synthetic,graphs=100,max_nodes=40"


def test_build_then_everything_else(permlab, cache: Path) -> None:
    assert permlab("data", "list")[1].rstrip().endswith("nothing yet; try: permlab data build qm9")
    code, out, _ = permlab("data", "build", "synthetic", "max_nodes=40", "graphs=100")
    assert code == 0 and out.startswith(f"{NAME}: 100 graphs, ") and str(cache / NAME) in out
    assert permlab("data", "path", NAME)[1] == f"{cache / NAME}\n"
    assert "all 9 files match" in permlab("data", "verify", NAME)[1]
    assert NAME in permlab("data", "list")[1]


def test_info_shows_counts_sizes_target_and_split(permlab) -> None:
    permlab("data", "build", NAME)
    code, out, _ = permlab("data", "info", NAME)
    assert code == 0
    for part in ("regression, target score", "80 train, 20 holdout (seed 0)", "nodes per graph", "█", "mean"):
        assert part in out
    document = json.loads(permlab("data", "info", NAME, "--json")[1])
    for histogram in ("size_histogram", "target_histogram"):
        assert sum(entry["count"] for entry in document[histogram]) == 100
    assert document["split"] == {"seed": 0, "train": 80, "holdout": 20}
    assert document["min_nodes"] >= 4 and document["max_nodes"] <= 40


def test_info_of_classes_has_one_bar_per_class(permlab) -> None:
    permlab("data", "build", "synthetic", "task=classification")
    document = json.loads(permlab("data", "info", "synthetic", "task=classification", "--json")[1])
    assert [entry["from"] for entry in document["target_histogram"]] == [0, 1]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["build", "qm8"], 2, "did you mean 'qm9'?"),
        (["info", "synthetic"], 1, "synthetic is not built; build it with: permlab data build synthetic"),
        (["verify", "synthetic"], 1, "is not built"),
        (["path", "synthetic"], 1, "is not built"),
        (["build"], 2, "which data set?"),
        (["frobnicate"], 2, "choose from"),
        (["build", "synthetic", "graphs=none"], 2, "graphs='none' is not a value of type int"),
    ],
)
def test_what_is_wrong_is_one_line(permlab, words: list[str], code: int, says: str) -> None:
    exit_code, out, err = permlab("data", *words)
    assert (exit_code, out) == (code, "")
    assert says in err and err.count("\n") == 1


def test_a_damaged_cache_is_noted_in_the_list(permlab, cache: Path) -> None:
    permlab("data", "build", NAME)
    (cache / NAME / "az.npy").unlink()
    code, out, err = permlab("data", "list")
    assert code == 0 and "az.npy is missing" in err and "nothing yet" in out
