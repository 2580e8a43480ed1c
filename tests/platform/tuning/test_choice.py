"""From a tuning to a sweep: the chosen settings are read, checked, and applied to the right cells."""

from pathlib import Path

import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from permlab.platform.sweep.drive import tuned_choices
from permlab.platform.sweep.plan import manifest_of
from permlab.platform.tuning.choice import Choice, read_choices, write_choices

DATA = "synthetic,graphs=300,max_nodes=12,task=classification"


def choice(method: str, tuning: str = "first", **changes: object) -> Choice:
    facts = {
        "dataset": DATA,
        "digest": manifest_of(DATA).digest,
        "method": method,
        "d": 3,
        "split_seed": 0,
        "holdout": 0.2,
    }
    best = {"study": f"{tuning}/{DATA}/{method}/d3", "trial": 7, "metric": "auc", "value": 0.9, "default": 0.8}
    settings = {"train.learning_rate": {"sum": 0.01, "sort": 0.02}[method], "model.dropout": 0.1}
    return Choice.model_validate(facts | best | {"settings": settings} | changes)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    from permlab.datasets.cache import build

    build(DATA)
    folder = tmp_path / "tunings" / "first"
    folder.mkdir(parents=True)
    write_choices([choice("sum"), choice("sort")], folder)
    (tmp_path / "tunings" / "unfinished").mkdir()
    return tmp_path


def grid(runs: Path, *words: str) -> SweepSettings:
    return read_settings(SweepSettings, [f"dataset={DATA}", "d=3", "method=[sum,sort]", f"runs={runs}", *words])


def test_each_cell_gets_the_settings_of_its_own_study(runs: Path) -> None:
    sweep = grid(runs, "tuned=first", "seed=[0,1]", "model.hidden=20")
    cells = sweep.cells(tuned_choices(sweep))
    assert [(cell.method, cell.seed, cell.train.learning_rate) for cell in cells] == [
        ("sum", 0, 0.01),
        ("sum", 1, 0.01),
        ("sort", 0, 0.02),
        ("sort", 1, 0.02),
    ]
    for cell in cells:
        assert (cell.model.dropout, cell.model.hidden) == (0.1, 20)
        assert cell.data.split_seed == 0 and cell.data.validation == 0  # trained on all but the tuning's holdout


def test_a_tuning_its_file_and_its_study_give_the_same_choice(runs: Path) -> None:
    by_study = read_choices([f"first/{DATA}/sum/d3"], runs)
    by_file = read_choices([str(runs / "tunings" / "first" / "tuned.yaml")], runs)
    assert set(by_study) == {(DATA, "sum", 3, None)} and by_study.items() <= by_file.items()
    assert by_file == read_choices(["first"], runs)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tuned=second"], "tuned=second: .*: first$"),
        (["tuned=unfinished"], "tuned=unfinished: .*`permlab tune`.*: first$"),
        (["tuned=first/x/sum/d3"], f"choose from first/{DATA}/sum/d3"),
        (["tuned=[first,first]"], f"first/{DATA}/sum/d3 is for the same cells"),
        (["tuned=first", "d=4"], f"{DATA} sum d=4"),
        (["tuned=.."], r"'\.\.'"),
        (["tuned=first", "data.split_seed=1"], "tuned with data.split_seed=0; with 1"),
    ],
)
def test_a_tuning_that_does_not_fit_is_an_error_of_one_line(runs: Path, words: list[str], says: str) -> None:
    sweep = grid(runs, *words)
    with pytest.raises(ConfigError, match=says) as error:
        tuned_choices(sweep)
    assert "\n" not in str(error.value)


def test_another_version_of_the_data_is_refused(runs: Path) -> None:
    write_choices([choice("sum", digest="other"), choice("sort")], runs / "tunings" / "first")
    with pytest.raises(ConfigError, match=f"another version of {DATA}"):
        tuned_choices(grid(runs, "tuned=first"))


@pytest.mark.parametrize(
    ("holdout", "seen"),
    [("none", None), ("0.2", None), ("60", None), ("30", None), ("100", "40 of the 100"), ("0.5", "90 of the 150")],
)
def test_a_holdout_that_the_tuning_saw_is_refused(runs: Path, holdout: str, seen: str | None) -> None:
    """The tuning held out 60 graphs; any others were in its training or validation parts."""
    sweep = grid(runs, "tuned=first", f"data.holdout={holdout}")
    if seen is None:
        assert len(tuned_choices(sweep)) == 2
        return
    with pytest.raises(ConfigError, match=f"data.holdout=0.2.* {seen} graphs") as error:
        tuned_choices(sweep)
    assert "\n" not in str(error.value)


def test_a_choice_that_does_not_say_what_it_saw_is_refused(runs: Path) -> None:
    path = runs / "tunings" / "first" / "tuned.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "holdout" not in line))
    with pytest.raises(ConfigError, match=f"tuned=first: {path}"):
        tuned_choices(grid(runs, "tuned=first"))


def test_tune_and_tuned_exclude_each_other(runs: Path) -> None:
    with pytest.raises(ConfigError, match=r"tuned= .* tune .* not both"):
        grid(runs, "tuned=first", "tune.trials=3")
