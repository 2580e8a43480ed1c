"""What a report may claim: which tests it makes and what they are about, what is bold, what matches the paper."""

import dataclasses
from itertools import product

import pandas as pd
import pytest
from scipy import stats

from permlab.platform.report.answers import answers_section
from permlab.platform.report.as_run import splits_told
from permlab.platform.report.blocks import Entry, Section
from permlab.platform.report.findings import Findings
from permlab.platform.report.latex import to_latex
from permlab.platform.report.markdown import to_markdown
from permlab.platform.report.recipe import differences
from permlab.platform.report.scorecard import compared, scorecard_section
from permlab.platform.report.significance import luck_section
from permlab.platform.report.statistics import holm, paired_test
from permlab.platform.report.stored import StoredSweep
from permlab.platform.report.tables import tables_section
from permlab.platform.report.used import told
from permlab.readouts.catalogue import CATALOGUE
from permlab.readouts.names import METHODS
from tests.platform.report.making import SETTINGS

AUC = ("proteins_full", 10, "holdout", "auc")


def with_cells(sweep: StoredSweep, cells: pd.DataFrame) -> StoredSweep:
    return dataclasses.replace(sweep, cells=cells)


def with_settings(sweep: StoredSweep, **by_method: dict[str, str]) -> StoredSweep:
    """The sweep with settings changed per method, or for `every` method."""
    params = [SETTINGS | by_method.get("every", {}) | by_method.get(name, {}) for name in sweep.cells["method"]]
    return with_cells(sweep, sweep.cells.assign(params=params))


def words(section: Section) -> str:
    return to_markdown("t", [section]).replace("\\", "")


def on_one_split(sweep: StoredSweep) -> StoredSweep:
    return with_settings(sweep, every={"data.split_seed": "0"})


def copied(sweep: StoredSweep, datasets: int) -> StoredSweep:
    """As many data sets as asked for, each with the cells of PROTEINS_full."""
    cells = sweep.cells[sweep.cells["dataset"] == "proteins_full"]
    return with_cells(sweep, pd.concat([cells.assign(dataset=f"tu:{i}") for i in range(datasets)]))


# Tests


def test_holm_covers_all_pairs_that_one_sentence_counts(sweep: StoredSweep) -> None:
    findings = Findings(sweep)
    places = [("proteins_full", d, "holdout", "auc") for d in (1, 10)]
    comparisons = [comparison for place in places for comparison in findings.comparisons[place]]
    p_values = [comparison.test.p for comparison in comparisons]
    assert [comparison.p_holm for comparison in comparisons] == pytest.approx(holm(p_values))
    significant = sum(comparison.p_holm < 0.05 for comparison in comparisons)
    assert len(comparisons) == 2 * 21 and f"{significant} of 42 pairs" in words(luck_section(findings))


def test_random_splits_are_tested_with_the_correction_and_one_split_without(sweep: StoredSweep) -> None:
    random, one = Findings(sweep), Findings(on_one_split(sweep))
    table = random.by_place[AUC][["sum", "sort"]]
    corrected, plain = (findings.compare(AUC, "sum", "sort").test.p for findings in (random, one))  # type: ignore[union-attr]
    assert corrected == pytest.approx(paired_test(table["sum"], table["sort"], 200 / 913).p)  # type: ignore[union-attr]
    assert plain == pytest.approx(stats.ttest_rel(table["sum"], table["sort"]).pvalue) and plain < corrected


def test_a_report_on_one_split_says_so(sweep: StoredSweep) -> None:
    findings = Findings(on_one_split(sweep))
    tests, answers = words(luck_section(findings)), words(answers_section(findings))
    assert "this one split" in tests and "on this split" in tests and "Nadeau" not in tests
    assert "this one split" in answers and "split_seed=0" in answers
    random = words(luck_section(Findings(sweep)))
    assert "Nadeau" in random and "this one split" not in random and "on this split" not in random
    assert "this one split" not in words(answers_section(Findings(sweep)))


def test_methods_on_different_splits_are_not_compared(sweep: StoredSweep) -> None:
    seeds = {"sum": {"data.split_seed": "1"}}
    findings = Findings(with_settings(sweep, every={"data.split_seed": "0"}, **seeds))
    assert not findings.testable
    assert "different fixed splits" in words(luck_section(findings))


def test_training_rows_are_not_tested_and_not_bold(sweep: StoredSweep) -> None:
    findings = Findings(sweep)
    tested = {split for (_, _, split, _), comparisons in findings.comparisons.items() if comparisons}
    assert tested == {"holdout", "holdout_perm"}
    for table in tables_section(findings).tables:
        bold = {row[0]: [entry.bold for entry in row[1:] if isinstance(entry, Entry)] for row in table.rows}
        assert not any(bold["training"]) and any(bold["holdout"])


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_method_with_fewer_than_three_seeds_is_neither_best_nor_bold(sweep: StoredSweep, seeds: int) -> None:
    """Kernels are best by far, but were measured once or twice."""
    lost = (sweep.cells["method"] == "kernels") & (sweep.cells["seed"] >= seeds)
    findings = Findings(with_cells(sweep, sweep.cells[~lost]))
    numbers = {method: number for (place, method), number in findings.numbers.items() if place == AUC}
    assert max(numbers, key=lambda method: numbers[method].estimate.mean) == "kernels"
    assert not numbers["kernels"].best and not numbers["kernels"].tied and numbers["sum"].best
    answers = words(answers_section(findings))
    assert "Best: sum at d = 1," in answers
    assert "fewer than 3 seeds: kernels at d = 1, kernels at d = 10" in answers


def test_a_method_that_shares_no_seeds_with_the_best_is_not_ruled_out(sweep: StoredSweep) -> None:
    cells = sweep.cells.assign(seed=sweep.cells["seed"] + 100 * (sweep.cells["method"] == "identity"))
    findings = Findings(with_cells(sweep, cells))
    assert findings.compare(AUC, "kernels", "identity") is None and findings.numbers[AUC, "identity"].tied
    assert not Findings(sweep).numbers[AUC, "identity"].tied


# Ranks


@pytest.mark.parametrize("datasets", [1, 2])
def test_with_one_data_set_or_two_ranks_are_a_description(sweep: StoredSweep, datasets: int) -> None:
    section = luck_section(Findings(copied(sweep, datasets)))
    figure = section.figures[0]
    assert "at least 3 data sets" in words(section)
    assert "Friedman" not in figure.alt and "critical" not in figure.caption and "p =" not in figure.alt
    assert figure.panels[0].groups == [] and all(series.low == [] for series in figure.panels[0].series)
    assert figure.panels[0].series[0].method == "kernels"


def test_the_blocks_of_friedmans_test_are_data_sets(sweep: StoredSweep) -> None:
    findings = Findings(copied(sweep, 3))
    ranks = findings.ranks("holdout")
    assert ranks is not None and ranks.test is not None and ranks.test.blocks == 3
    assert sorted(ranks.mean_ranks) == [1, 2, 3, 4, 5, 6, 7]  # the same in all three
    figure = luck_section(findings).figures[0]
    assert "3 data sets" in figure.caption and "critical difference" in figure.caption and figure.panels[0].groups


def test_no_critical_difference_where_friedman_finds_none(sweep: StoredSweep) -> None:
    """Three data sets that disagree: the methods' names are rotated from one to the next."""
    cells, names = [], ["sum", "sort", "ordering"]
    part = sweep.cells[(sweep.cells["dataset"] == "proteins_full") & sweep.cells["method"].isin(names)]
    for turn in range(3):
        rotated = dict(zip(names, names[turn:] + names[:turn], strict=True))
        cells.append(part.assign(dataset=f"tu:{turn}", method=part["method"].map(rotated)))
    figure = luck_section(Findings(with_cells(sweep, pd.concat(cells)))).figures[0]
    assert "3 data sets" in figure.caption and "no method differs" in figure.caption
    assert figure.panels[0].groups == [] and all(series.low == [] for series in figure.panels[0].series)


# The paper


def test_the_interval_of_one_more_run_decides_everywhere(sweep: StoredSweep) -> None:
    findings = Findings(sweep)
    marks = {True: "✓", False: "✗"}
    rescued = 0
    for (place, _), number in findings.numbers.items():
        if number.paper is not None:
            values = findings.by_place[place]
            low, high = stats.t.interval(0.95, len(values) - 1, number.estimate.mean, number.prediction / 3.182446)
            assert number.inside == (low - 5e-4 <= number.paper <= high + 5e-4)
            rescued += number.inside and not abs(number.paper - number.estimate.mean) <= number.estimate.half_width
    assert rescued  # inside this interval, but outside that of the mean
    for table in tables_section(findings).tables:
        for row in table.rows:
            assert all(entry.note.endswith(marks[entry.good]) for entry in row[1:] if entry.note)  # type: ignore[union-attr]


def test_a_single_split_gives_no_verdict_on_the_papers_numbers(sweep: StoredSweep) -> None:
    findings = Findings(on_one_split(sweep))
    assert all(number.inside is None for number in findings.numbers.values())
    assert "one split" in words(scorecard_section(findings))
    rows = [row for table in tables_section(findings).tables for row in table.rows]
    notes = [entry.note for row in rows for entry in row if isinstance(entry, Entry) and entry.note]
    assert notes and not any("✓" in note or "✗" in note for note in notes)


def test_the_permuted_holdout_of_an_invariant_method_counts_once(sweep: StoredSweep) -> None:
    assert {name: readout.permutation_invariant for name, readout in CATALOGUE.items()} == {
        name: method.invariant for name, method in METHODS.items()
    }
    numbers = compared(Findings(sweep), "proteins_full")
    assert len(numbers) == 3 * 2 * (5 * 2 + 2 * 3)  # metrics × d × (invariant methods × splits + others × splits)


def test_every_difference_from_the_papers_recipe_is_listed_beside_the_comparison(sweep: StoredSweep) -> None:
    changed = {"train.epochs": "40", "model.dropout": "0.1", "readout": "{'key': 'ones'}"}
    tuned = {"sum": {"train.learning_rate": "0.01"}}
    cells = with_settings(sweep, every=changed, **tuned).cells
    findings = Findings(with_cells(sweep, cells.assign(**{"graphs/holdout": 150})))
    texts = [words(answers_section(findings)), to_latex([make(findings) for make in (answers_section, tables_section)])]
    expected = [
        "train.epochs=40 (the paper: 300)",
        "model.dropout=0.1 (the paper does not say)",
        "readout={'key': 'ones'} (the paper: {})",
        "train.optimizer=adam, train.learning_rate=0.001 (ordering, kernels, identity, augment, sort, set2set), 0.01",
        "150 graphs held out (the paper: 200)",
        "model.last_activation=none (the paper: relu",
        "a random split per seed (the paper: one",
    ]
    for text, line in product(texts, expected):
        assert line in text
    assert "train.eval_every" not in "".join(texts)


def test_the_papers_own_recipe_differs_only_where_we_know_it_does(sweep: StoredSweep) -> None:
    text = " ".join(differences(sweep, "proteins_full"))
    assert "train.epochs" not in text and "held out" not in text and "model.last_activation=none" in text
    assert "model." not in " ".join(differences(with_settings(sweep, every={"model.last_activation": "relu"}), "qm9"))
    assert differences(sweep, "tu:MUTAG") == []


def test_the_report_says_where_the_recipe_is_not_known(sweep: StoredSweep) -> None:
    findings = Findings(with_cells(sweep, sweep.cells.drop(columns="params")))
    assert "not stored" in words(answers_section(findings))


def test_values_that_differ_by_fold_alone_are_told_without_methods() -> None:
    places = {("sum", 10), ("ordering", 10)}
    assert told({"100": places, "50": places}) == "50, 100"
    assert told({"100": places, "50": {("sum", 10)}}) == "50 (sum), 100 (ordering, sum)"


def test_a_fixed_split_without_folds_is_told() -> None:
    places = {("sum", 10)}
    settings = {"data.split_seed": {"None": places}, "data.splits": {"scaffold": places}, "data.fold": {"None": places}}
    assert splits_told(settings) == "data.splits=scaffold"
