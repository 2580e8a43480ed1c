"""The league: ranks, what is proved of the maps as they were built, what was found, and the page in docs/."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from permlab.platform.display.build_bar import build_if_missing
from permlab.platform.report.blocks import Entry, Items, Table
from permlab.platform.report.facts import Found, MapFacts, everywhere, facts_by_place
from permlab.platform.report.findings import Findings
from permlab.platform.report.league import League, league_blocks, league_figure, league_section, league_table
from permlab.platform.report.league_cells import read_cells, write_cells
from permlab.platform.report.league_page import BEGIN, CELLS, END, PAGE, PICTURE, generated, write_league
from permlab.platform.report.on_disk import read_on_disk
from permlab.platform.report.sections import SECTIONS
from permlab.platform.report.standings import standings
from permlab.platform.report.statistics import holm, paired_test
from permlab.platform.report.stored import StoredSweep
from tests.platform.driving import drive

ROOT = Path(__file__).parents[3]
METHODS = ["ordering", "identity", "sum", "sort", "gamma", "fsw,out_channels=3", "max", "deepsets"]
DATASETS = ["synthetic,graphs=60,max_nodes=5", "synthetic,graphs=60,max_nodes=7,seed=1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight methods on two small data sets with three seeds, trained for two epochs."""
    folder = tmp_path_factory.mktemp("league") / "runs"
    words = [f"dataset={json.dumps(DATASETS)}", f"method={json.dumps(METHODS)}", "seed=[0,1,2]", "data.holdout=12"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERMLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        for dataset in DATASETS:
            build_if_missing(dataset)
        drive(folder, "name=league", "track=false", *words)
    return folder


@pytest.fixture(scope="module")
def stored(runs: Path) -> StoredSweep:
    sweep = read_on_disk("league", runs)
    assert sweep is not None and len(sweep.finished) == len(sweep.cells) == 48
    return sweep


@pytest.fixture(scope="module")
def league(stored: StoredSweep) -> League:
    return League(Findings(stored))


def rows(table: Table) -> dict[str, dict[str, str]]:
    """Texts by first column and header."""
    texts = [[entry.text if isinstance(entry, Entry) else entry for entry in row] for row in table.rows]
    return {row[0]: dict(zip(table.header, row, strict=True)) for row in texts}


def results(runs: Path) -> pd.DataFrame:
    """What the cells wrote themselves."""
    documents = [json.loads(file.read_text()) for file in runs.glob("cells/*/result.json")]
    facts = ("dataset", "method", "d", "seed")
    return pd.DataFrame(
        [{name: one[name] for name in facts} | one["metrics"]["holdout"] | one["certificate"] for one in documents]
    )


# Ranks


def test_methods_stand_in_the_order_of_their_mean_rank(league: League, runs: Path) -> None:
    """In every (data set, seed) methods are ranked by MAE; first the mean over seeds, then over data sets."""
    table = results(runs).pivot_table("mae", ["dataset", "seed"], "method")
    by_seed = pd.DataFrame(rankdata(table, axis=1), table.index, table.columns)
    expected = by_seed.groupby("dataset").mean().mean()
    shown = rows(league_table(league))
    assert {method: float(row["mean rank"]) for method, row in shown.items()} == pytest.approx(
        expected.to_dict(), abs=6e-3
    )
    assert [expected[method] for method in shown] == pytest.approx(sorted(expected))


def test_two_data_sets_give_a_description_without_p(league: League) -> None:
    section = league_section(league.findings)
    assert section is not None and "8 methods, sorted by mean rank" in str(section.blocks[0])
    assert "here there are 2" in str(section.blocks[0])
    assert league.ranks is not None and league.ranks.test is None
    assert "Friedman" not in str(section.blocks) and "critical" not in str(section.blocks)


def test_a_method_without_enough_seeds_is_listed_but_not_ranked(stored: StoredSweep) -> None:
    lost = (stored.cells["method"] == "sum") & (stored.cells["seed"] > 0)
    lost |= (stored.cells["method"] == "max") & (stored.cells["dataset"] == DATASETS[0])
    cells = stored.cells.assign(status=stored.cells["status"].mask(lost, "FAILED"))
    league = League(Findings(dataclasses.replace(stored, cells=cells)))
    shown = rows(league_table(league))
    assert list(shown)[-2:] == ["sum", "max"] and {shown[name]["mean rank"] for name in ("sum", "max")} == {"–"}
    assert league.ranks is not None and league.ranks.left_out == ["sum", "max"]
    hollow = {series.method for panel in league_figure(league).panels[:2] for series in panel.series if series.hollow}
    assert not hollow & {"sum", "max"}, "not tested, so not shown to be worse"


def test_the_report_shows_it_where_more_methods_than_the_papers_were_run(league: League, sweep: StoredSweep) -> None:
    assert league_section in SECTIONS and league_section(league.findings) is not None
    assert league_section(Findings(sweep)) is None, "the seven of the paper"
    new = league.findings.sweep.cells["method"].isin(["gamma", "max", "deepsets"])
    few = dataclasses.replace(league.findings.sweep, cells=league.findings.sweep.cells[new])
    assert league_section(Findings(few)) is not None, "few, but none of the paper's"


# Proved


def test_facts_are_of_the_map_as_it_was_built(league: League) -> None:
    """fsw states that it is injective, but not with three outputs; gamma has as many as its theorem asks for."""
    facts = league.facts[DATASETS[0], 2, "gamma"]
    assert facts.m == 2 * 5 * 2 - 2 and league.facts[DATASETS[1], 2, "gamma"].m == 2 * 7 * 2 - 2
    names = ("invariant", "injective", "Lipschitz", "bi-Lipschitz")
    words = {method: [row[name] for name in names] for method, row in rows(league_table(league)).items()}
    assert words["gamma"] == ["yes", "yes", "yes", "yes"]
    assert words["fsw,out_channels=3"] == ["yes", "no", "yes", "no"]
    assert words["ordering"] == ["yes", "almost everywhere", "yes", "no"]
    assert words["identity"] == ["no", "yes", "no", "no"]


@pytest.mark.parametrize(
    ("options", "injective"), [("{}", "yes"), ("{'out_channels': 17}", "no"), ("{'out_channels': 18}", "yes")]
)
def test_options_of_the_readout_count(stored: StoredSweep, options: str, injective: str) -> None:
    """18 = 2nd − d numbers make γ injective for n = 5, d = 2."""
    cells = stored.cells[(stored.cells["method"] == "gamma") & (stored.cells["dataset"] == DATASETS[0])]
    cells = cells.assign(params=[params | {"readout": options} for params in cells["params"]])
    facts = facts_by_place(dataclasses.replace(stored, cells=cells))
    assert facts[DATASETS[0], 2, "gamma"].stated["injective"] == injective


def test_code_that_a_stored_run_names_is_not_loaded(stored: StoredSweep, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'loaded')!r}).touch()\nMine = None\n")
    cells = stored.cells.replace({"method": {"gamma": f"{file}:Mine", "max": "pyg:MedianAggregation"}})
    league = League(Findings(dataclasses.replace(stored, cells=cells)))
    shown = rows(league_table(league))
    assert not (tmp_path / "loaded").exists()
    assert shown[f"{file}:Mine"]["injective"] == shown["pyg:MedianAggregation"]["injective"] == "–"


# Found


def test_what_was_found_is_the_worst_of_all_certificates(league: League, runs: Path) -> None:
    table = results(runs)
    table["ratio"] = table["ratio_max"] / table["ratio_min"]
    shown = rows(league_table(league))
    for method, cells in table.groupby("method"):
        assert float(shown[method]["error"]) == pytest.approx(cells["invariance_error"].max(), rel=0.1)
        assert float(shown[method]["gap"]) == pytest.approx(cells["gap"].min(), rel=0.1)
        assert float(shown[method]["ratio"].replace("∞", "inf")) == pytest.approx(cells["ratio"].max(), rel=0.1)
    (sentence,) = [block for block in league_blocks(league) if str(block).startswith("No finding contradicts")]
    assert "Seen not to be invariant: identity." in str(sentence)


def test_the_picture_marks_what_is_proved_and_found(league: League) -> None:
    *scores, proved, found = league_figure(league).panels
    assert [panel.series[0].method for panel in scores] == [next(iter(league.methods))] * 2

    def marks(panel, method: str) -> dict[str, bool]:
        """By name of the column: whether the mark is hollow."""
        parts = [series for series in panel.series if series.method == method]
        return {panel.x_names[int(x)]: series.hollow for series in parts for x in series.x}

    assert marks(proved, "ordering") == {"invariant": False, "injective": True, "Lipschitz": False}
    assert marks(proved, "identity") == {"injective": False} and "invariant" not in marks(found, "identity")
    assert marks(found, "gamma") == {"invariant": False, "no collision": False}


def facts(error: float, gap: float, ratios: tuple[float, ...] = (0.5, 2.0, 4.0), **stated: str) -> MapFacts:
    return MapFacts(3, stated, "", Found(error, *ratios, gap))


def test_a_finding_that_contradicts_a_fact_is_said() -> None:
    assert facts(1e-15, 0.1, permutation_invariant="yes", injective="yes").refuted == []
    (line,) = facts(0.5, 0.1, permutation_invariant="yes").refuted
    assert "stated to be invariant" in line and "0.5" in line
    (line,) = facts(1e-15, 1e-17, injective="yes").refuted
    assert "one image" in line
    assert facts(0.5, 0.0, permutation_invariant="no", injective="almost everywhere").refuted == []


def test_over_data_sets_the_weakest_fact_and_the_worst_finding_count() -> None:
    nan = float("nan")
    first = facts(1e-15, nan, (1.0, 2.0, 2.0), injective="yes", lipschitz="yes")
    second = facts(0.1, 0.2, (0.1, 0.15, 1.5), injective="almost everywhere")
    both = everywhere([first, second])
    assert both.stated == {"injective": "almost everywhere"}, "nothing is known of Lipschitz in the second"
    assert both.found == Found(0.1, 0.1, 2.0, 2.0, 0.2), "ratios of two maps are not divided"
    unmeasured = everywhere([facts(nan, nan, (nan, nan, nan))]).found
    assert unmeasured.invariant is None and unmeasured.collision is None and np.isnan(unmeasured.distortion)


def test_a_pair_with_one_image_stretches_without_bound(stored: StoredSweep) -> None:
    cells = stored.cells.assign(**{"certificate/ratio_min": 0.0})
    found = facts_by_place(dataclasses.replace(stored, cells=cells))[DATASETS[0], 2, "sum"].found
    assert found.distortion == float("inf")


# Significance


def test_the_best_is_compared_under_all_pairs_and_the_reference_under_its_own_tests(sweep: StoredSweep) -> None:
    """Seven methods, four seeds: Nadeau and Bengio's test with n_test / n_train = 200 / 913, Holm over 12 tests."""
    findings = Findings(sweep)
    (protein, _) = [block for block in standings(findings, League(findings).places) if isinstance(block, Items)]
    cells = sweep.cells[sweep.cells["dataset"] == "proteins_full"]
    by_seed = cells.sort_values("seed").groupby(["d", "method"])
    scores = {place: part["holdout/auc"].to_numpy() for place, part in by_seed}
    others = [(d, m) for d, m in scores if m != "ordering"]
    tests = [paired_test(scores[place], scores[place[0], "ordering"], 200 / 913) for place in others]
    p = holm([test.p for test in tests if test])
    better = {place for place, test, q in zip(others, tests, p, strict=True) if q < 0.05 and test.difference > 0}
    worse = {place for place, test, q in zip(others, tests, p, strict=True) if q < 0.05 and test.difference < 0}
    (line,) = [line for line in protein.lines if line.startswith("Against ordering")]
    told_better, told_worse = line.partition("; worse ")[::2]
    assert "these 12 tests only" in line and better and worse
    for d, method in others:
        words = f"{method} at d = {d} ("
        assert ((words in told_better), (words in told_worse)) == ((d, method) in better, (d, method) in worse)
    for d in (1, 10):
        place = ("proteins_full", d, "holdout", "auc")
        (line,) = [line for line in protein.lines if line.startswith(f"Best at d = {d}: kernels")]
        apart = [m for m in findings.by_place[place] if (t := findings.compare(place, "kernels", m)) and t.significant]
        assert f"{len(apart)} of the 6 other methods" in line and all(method in line for method in apart)


# The page


def test_the_page_is_made_again_from_its_cells_and_leaves_the_rest_alone(runs: Path, permlab, tmp_path: Path) -> None:
    docs, again = tmp_path / "docs", tmp_path / "again"
    docs.mkdir()
    (docs / PAGE).write_text(f"# Mine\n\nBefore.\n\n{BEGIN}\nstale words\n{END}\n\n## What surprised\n\nNothing.\n")
    code, out, err = permlab("report", "league", "--runs", str(runs), "--league", str(docs))
    assert code == 0 and "48 of 48 cells" in out, err
    text = (docs / PAGE).read_text()
    assert text.startswith(f"# Mine\n\nBefore.\n\n{BEGIN}\n") and text.endswith("## What surprised\n\nNothing.\n")
    assert "stale words" not in text and "train.epochs" not in text and "epochs 2;" in text and f"]({PICTURE})" in text
    assert (docs / PICTURE).read_bytes().startswith(b"\x89PNG")
    assert str(runs) not in text + (docs / CELLS).read_text()
    code, out, err = permlab("report", str(docs / CELLS), "--league", str(again))
    assert code == 0, err
    inside = text[text.index(BEGIN) : text.index(END)]
    assert inside in (again / PAGE).read_text() and (again / CELLS).read_text() == (docs / CELLS).read_text()


def test_the_cells_keep_what_the_league_needs(stored: StoredSweep, league: League, tmp_path: Path) -> None:
    lost = stored.cells["seed"] == 2
    partial = dataclasses.replace(stored, cells=stored.cells.assign(status=stored.cells["status"].mask(lost, "FAILED")))
    for sweep in (stored, partial):
        write_cells(sweep, tmp_path / "cells.csv")
        again = read_cells(tmp_path / "cells.csv")
        assert (len(again.cells), len(again.finished)) == (len(sweep.cells), len(sweep.finished))
        ours, theirs = (League(Findings(one)) for one in (sweep, again))
        assert league_blocks(ours) == league_blocks(theirs)
        assert again.settings(DATASETS[0]).keys() <= sweep.settings(DATASETS[0]).keys()
    assert "Not complete: 16 of 48 cells are missing." in generated(theirs)


@pytest.mark.parametrize("page", ["no marks", f"{END}\n{BEGIN}", f"{BEGIN}\n{BEGIN}\n{END}"])
def test_a_page_without_its_two_marks_is_left_alone(runs: Path, permlab, tmp_path: Path, page: str) -> None:
    (tmp_path / PAGE).write_text(page)
    code, _, err = permlab("report", "league", "--runs", str(runs), "--league", str(tmp_path))
    assert code == 2 and "must have one line" in err and len(err.splitlines()) == 1
    assert (tmp_path / PAGE).read_text() == page and not (tmp_path / CELLS).exists()


def test_wrong_calls_get_one_line(runs: Path, stored: StoredSweep, permlab, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for words, said in (
        (["league", "--runs", str(runs), "--league", "x", "--out", "y"], "leave one of them out"),
        ([str(tmp_path / "other.csv"), "--league", str(tmp_path)], "has no column dataset"),
        ([str(tmp_path / "none.csv"), "--league", str(tmp_path)], "cannot be read"),
    ):
        code, _, err = permlab("report", *words)
        assert code == 2 and said in err and len(err.splitlines()) == 1
    waiting = dataclasses.replace(stored, cells=stored.cells.assign(status="WAITING"))
    with pytest.raises(Exception, match="no cell of league has finished"):
        write_league(waiting, tmp_path / "new")


@pytest.mark.skipif(not (ROOT / "docs" / CELLS).exists(), reason="docs/data/league.csv is not there")
def test_the_table_of_the_documentation_is_that_of_its_cells() -> None:
    assert generated(League(Findings(read_cells(ROOT / "docs" / CELLS)))) in (ROOT / "docs" / PAGE).read_text()
