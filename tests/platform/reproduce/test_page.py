"""The page of the reproduction: a pure function of the stored cells, and right about them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.report.results import paper_numbers
from permlab.platform.report.scorecard import repeated
from permlab.platform.reproduce.page import (
    CELLS_FILE,
    FACTS_FILE,
    PAGE,
    add_data,
    findings_of,
    numbers_of,
    write_data,
    write_page,
)
from permlab.readouts.names import PAPER_METHODS

DOCS = Path(__file__).parents[3] / "docs"
SPREAD = 0.004
FACTS: dict[str, Any] = {
    "sweeps": [
        {
            "recipe": "default", "name": "whole", "started": 1.0, "status": "FINISHED", "starts": 4,
            "wall_clock": 7200.0, "planned": 84, "finished": 84,
            "surroundings": ["command: permlab sweep name=whole"],
        }
    ],
    "searches": [
        {
            "name": "fit", "started": 2.0, "dataset": "qm9", "method": "sum, ordering", "d": "10",
            "finished": 2, "pruned": 1,
            "importances": {"model.norm": 0.75, "model.init": 0.25}, "seconds": 3600.0, "best": 1,
            "outcome": {
                "default": {"train": {"all": 0.9}, "holdout": {"all": 0.8}},
                "fitted": {"train": {"all": 0.3}, "holdout": {"all": 0.7}},
            },
            "trials": [
                {"number": 0, "value": 0.9, "by_method": {"sum": 0.1, "ordering": 1.2}, "values": {"x": 1}},
                {"number": 1, "value": 0.3, "by_method": {"sum": 0.3, "ordering": 0.3}, "values": {"x": 2}},
            ],
        }
    ],
}  # fmt: skip


def cells(seeds: int = 3, moved: float = 0.0) -> pd.DataFrame:
    """The paper's numbers, `moved`, with a little luck per seed."""
    rows: list[dict[str, Any]] = []
    luck = np.random.default_rng(0)
    for dataset, d, method in dict.fromkeys(kind[:3] for kind in paper_numbers()):
        for seed in range(seeds):
            row: dict[str, Any] = {"recipe": "default", "dataset": dataset, "d": d, "method": method, "seed": seed}
            row |= {
                "key": f"{dataset}-{method}-{d}-{seed}",
                "status": "FINISHED",
                "epoch": 300,
                "epochs": 300,
                "threads": 1,
                "seconds": 600.0,
                "engine": "fast",
                "error": "",
                "sweep": "whole",
                "started": 1.0,
                "commit": "abc1234567",
                "code": "4f",
                "cpu": "a CPU",
                "version": 7,
                "digest": dataset,
                "settings": "{}",
                "again": np.nan,
                "graphs/holdout": 200.0 if dataset == "proteins_full" else 20_000.0,
            }
            row |= {"oscillation": 0.01 + 0.1 * (method in ("identity", "augment"))}
            for kind, value in paper_numbers().items():
                if kind[:3] == (dataset, d, method):
                    row[f"{kind[3]}/{kind[4]}"] = value + moved + SPREAD * luck.standard_normal()
            rows.append(row)
    return pd.DataFrame(rows)


def page(docs: Path, table: pd.DataFrame, facts: dict[str, Any] | None = None) -> str:
    write_data(docs / "data", table, FACTS if facts is None else facts)
    return write_page(docs).read_text()


def score(text: str, dataset: str = "both") -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {dataset} | all methods"))
    return [part.strip() for part in line.strip("|").split("|")][2:]


def test_the_papers_own_numbers_match(tmp_path: Path) -> None:
    text = page(tmp_path, cells())
    counted = [kind for kind in paper_numbers() if not repeated(kind)]
    trained = sum(kind[3] == "train" for kind in counted)
    measured, training, held_out, _ = score(text)
    assert measured == f"{len(counted)} of {len(counted)}"
    assert training.endswith(f" of {trained}") and int(training.split()[0]) >= 0.9 * trained
    assert int(held_out.split()[0]) >= 0.85 * (len(counted) - trained)
    assert "the paper's tables 18 of 19, default 19 of 20" in text
    (answer,) = [line for line in text.splitlines() if line.startswith("* QM9, default recipe: ")]
    assert "64 of 64 numbers of the paper measured, 3 seeds; inside: " in answer
    assert "**QM9, MAE, d = 10 (default: 3 seeds)**" in text and "* splits: every seed has a random one of" in text
    assert "* train.optimizer=adam, train.learning\\_rate=0.001 (the paper names neither)" in text
    assert "Nothing: every cell was run to its end." in text


def test_numbers_far_from_the_papers_are_outside(tmp_path: Path) -> None:
    table = cells(moved=0.2)
    assert score(page(tmp_path, table))[1].startswith("0 of ")
    assert float(score(page(tmp_path, table), "QM9")[3]) == pytest.approx(0.2, abs=0.002)
    numbers = numbers_of(findings_of(table, "default"))
    assert len(numbers) == 336 and not any(number.inside for number in numbers.values())


def test_the_16_tables_have_every_number(tmp_path: Path) -> None:
    text = page(tmp_path, cells())
    title = r"\*\*(PROTEINS\\_full|QM9), (accuracy|AUC|AP|MAE), d = (\d+) \(default: 3 seeds\)\*\*"
    tables = re.findall(title + r"\n\n((?:\|.*\n)+)", text)
    assert len(tables) == 16
    papers = sorted(f"{value:.3f}" for value in paper_numbers().values())
    shown = []
    for *_, table in tables:
        rows = [[part.strip() for part in line.strip("|").split("|")] for line in table.splitlines()[2:]]
        assert [row[0] for row in rows] == list(PAPER_METHODS)
        shown += [row[column] for row in rows for column in (1, 3, 5)]
        assert all(re.fullmatch(r"\d\.\d{3} ± \d\.\d{3} [✓✗]", row[column]) for row in rows for column in (2, 4, 6))
    assert sorted(shown) == papers


def test_a_single_seed_has_no_verdict(tmp_path: Path) -> None:
    text = page(tmp_path, cells(seeds=1))
    assert score(text)[1:3] == ["–", "–"] and "✓" not in text.partition("**PROTEINS")[2]


def test_what_is_missing_is_named_with_how_far_it_got(tmp_path: Path) -> None:
    table = cells(seeds=1)
    table = table[~((table["dataset"] == "qm9") & (table["method"] == "sort"))].reset_index(drop=True)
    place = table.index[(table["dataset"] == "qm9") & (table["method"] == "augment") & (table["d"] == 100)]
    table.loc[place, ["status", "epoch"]] = ["KILLED", 170]
    text = page(tmp_path, table)
    assert "default: QM9, augment, d = 100, seed 0: epoch 170 of 300" in text
    assert "| augment | 1 of 1 | 1 of 1 | 1 of 1 | 0 of 1 |" in text and text.count("finished seeds") == 1
    assert "default: QM9, not planned: sort d = 1, sort d = 10, sort d = 50, sort d = 100" in text


def test_cost_and_search_are_told(tmp_path: Path) -> None:
    text = page(tmp_path, cells())
    assert "| default | QM9 | 84 | 14.0 |" in text  # 84 cells of 600 s
    assert "| whole | 1970-01-01 | default | finished | 84 of 84 | 28.0 | 2.0 | 3 |" in text
    assert (
        "default, QM9: 84 cells, seeds 0 to 2: result version 7, commit abc1234, digest of its code 4f, a CPU" in text
    )
    assert "| training, all methods | 0.900 | 0.300 |" in text and "| holdout, all methods | 0.800 | 0.700 |" in text
    assert "| model.norm | 75% |" in text and "* command: permlab sweep name=whole" in text
    assert (
        "In the best of 2 trials for it alone, an optimistic choice, sum comes closer to the paper by a fifth" in text
    )
    assert "did not use the holdout" in text and "did not use" not in page(
        tmp_path, cells(), FACTS | {"searches": [FACTS["searches"][0] | {"outcome": {}}]}
    )


def test_the_page_is_written_again_as_it_was(tmp_path: Path) -> None:
    first = page(tmp_path, cells())
    pictures = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert write_page(tmp_path).read_text() == first and set(pictures) == {
        "reproduction-train.png", "reproduction-holdout.png",
    }  # fmt: skip
    assert all(f"]({name})" in first for name in pictures)


def test_sweeps_of_several_machines_add_up(tmp_path: Path) -> None:
    table = cells()
    early, late = (
        table[table["seed"] < 2],
        table[table["seed"] > 0].assign(started=9.0, commit="def", cpu="another CPU"),
    )
    late.loc[late["seed"] == 1, "status"] = "RUNNING"  # begun here, finished there
    page(tmp_path, early)
    for _ in range(2):  # again is the same: of one name, but another sweep
        other: dict[str, Any] = {"sweeps": [FACTS["sweeps"][0] | {"started": 9.0, "starts": 1}], "searches": []}
        add_data(tmp_path / "data", late, other)
        text = write_page(tmp_path).read_text()
        assert "Nothing: every cell was run to its end." in text and "search fit" in text
        assert "| whole | 1970-01-01 | default | finished | 84 of 84 | 18.7 | 2.0 | 3 |" in text
        assert (
            "| whole | 1970-01-01 | default | finished | 84 of 84 | 9.3 | 2.0 | 0 |" in text
            and text.count("| whole |") == 2
        )
        assert "QM9: 56 cells, seeds 0 and 1: result version 7, commit abc1234, digest of its code 4f, a CPU" in text
        assert "QM9: 28 cells, seeds 2: result version 7, commit def, digest of its code 4f, another CPU" in text
    joined = pd.read_parquet(tmp_path / "data" / CELLS_FILE)
    assert len(joined) == len(table) and set(joined["status"]) == {"FINISHED"}


@pytest.mark.parametrize("settings", [{"data.split_seed": "0", "data.target": "homo"}, {"objective.kind": "binary"}])
def test_what_means_something_else_is_not_compared(tmp_path: Path, settings: dict[str, str]) -> None:
    table = cells()
    table.loc[table["dataset"] == "qm9", "settings"] = json.dumps(settings)
    text = page(tmp_path, table)
    assert score(text, "QM9") == ["0 of 64", "–", "–", "–"] and score(text, "PROTEINS\\_full")[0] == "192 of 192"
    line = next(line for line in text.splitlines() if "the kernels method failed to train" in line)
    assert line.endswith("| yes | – |") and all(
        f"{name}={value}" in text.replace("\\", "") for name, value in settings.items()
    )


def test_one_split_has_no_verdict(tmp_path: Path) -> None:
    text = page(tmp_path, cells().assign(settings=json.dumps({"data.split_seed": "0"})))
    assert score(text)[:3] == ["256 of 256", "–", "–"] and "✓" not in text.partition("**PROTEINS")[2]


@pytest.mark.parametrize("left", ["nothing finished", "a part of QM9"])
def test_without_any_number_of_the_paper_the_page_is_still_written(tmp_path: Path, left: str) -> None:
    table = cells(seeds=1)
    if left == "nothing finished":
        table = table.assign(status="WAITING", epoch=0)
    else:
        table = table[table["dataset"] == "qm9"].assign(dataset="qm9,limit=300")
    text = page(tmp_path, table)
    assert score(text)[0] == "0 of 256" and "](reproduction-" not in text


def test_a_failed_cell_says_so(tmp_path: Path) -> None:
    table = cells()
    table.loc[0, ["status", "epoch", "error"]] = ["FAILED", 12, "the loss is nan in epoch 12"]
    text = page(tmp_path, table)
    failed = "seed 0: failed after epoch 12 of 300: the loss is nan in epoch 12\n"
    assert failed in text and "2 to 3 seeds" in text and "| 2 of 3 |" in text


def test_cells_that_were_run_twice_are_told(tmp_path: Path) -> None:
    table = cells()
    table.loc[[0, 1], "again"] = [0.0, 0.25]
    text = page(tmp_path, table)
    assert "finished more than once, on several machines say: 2." in text
    assert "differs from it in 1 of them, by 0.25 in a metric at most" in text


@pytest.mark.parametrize("name", [CELLS_FILE, FACTS_FILE])
def test_a_damaged_or_missing_file_is_refused_and_nothing_is_lost(tmp_path: Path, name: str) -> None:
    page(tmp_path, cells(seeds=1))
    path = tmp_path / "data" / name
    whole = path.read_bytes()
    for damage in (lambda: path.write_bytes(whole.replace(b"7200", b"7300")[:-9]), path.unlink):
        damage()
        before = sorted((tmp_path / "data").iterdir())
        with pytest.raises(ConfigError, match=f"{tmp_path}/data (holds a damaged file|needs {CELLS_FILE} and)"):
            add_data(tmp_path / "data", cells(seeds=2), FACTS)
        with pytest.raises(ConfigError, match="from the same commit|as they were committed"):
            write_page(tmp_path)
        assert sorted((tmp_path / "data").iterdir()) == before


def test_a_search_can_be_added_alone(tmp_path: Path) -> None:
    search = {"sweeps": [], "searches": [FACTS["searches"][0] | {"started": 5.0, "dataset": "proteins_full"}]}
    with pytest.raises(ConfigError, match="has no cells yet; name sweeps"):
        add_data(tmp_path / "data", pd.DataFrame(), dict(search))
    page(tmp_path, cells(seeds=1))
    add_data(tmp_path / "data", pd.DataFrame(), dict(search))
    text = write_page(tmp_path).read_text()
    assert "PROTEINS\\_full, search fit" in text and "QM9, search fit" in text and "| whole |" in text


@pytest.mark.skipif(not (DOCS / "data" / CELLS_FILE).exists(), reason="the long sweeps have not been published yet")
def test_the_published_page_is_what_its_data_say(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(DOCS / "data")
    assert write_page(tmp_path).read_text() == (DOCS / PAGE).read_text()
