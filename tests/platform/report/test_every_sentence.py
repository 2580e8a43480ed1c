"""Every sentence of four reports is checked against the settings and the numbers that it speaks of.

A sentence that no rule knows fails: nothing may be said on the page that this test does not check.
"""

import re
import shlex
from collections.abc import Callable
from statistics import mean

import pytest

from permlab.platform.report.blocks import Block, Figure, Items, Table
from permlab.platform.report.findings import Findings
from permlab.platform.report.sections import SECTIONS
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import read_settings
from tests.platform.report.making import COMMIT, cell_metrics
from tests.platform.report.settled import Settled, choice, settle

RATES = {"ordering": 0.0064412, "identity": 0.02, "sum": 0.001}


def settings(*words: str) -> SweepSettings:
    return read_settings(SweepSettings, ["paper-proteins", "method=[ordering,identity,sum]", "seed=[0,1,2,3]", *words])


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Settled]:
    runs = tmp_path_factory.mktemp("sentences") / "runs"
    chosen = [
        choice(name, 10, {"train.learning_rate": rate}, trial=0 if name == "sum" else 1) for name, rate in RATES.items()
    ]
    invariant = settings("name=thirty", "train.epochs=30", "d=[1,10]", "method=[ordering,sum]")
    few = settings("name=half", "seed=[0,1]", "d=[1,10]", "data.split_seed=7", "model.dropout=0.1")
    return {
        "tuned": settle(runs, settings("name=tuned", "tuned=first"), chosen, default=True),
        "undecided": settle(runs, settings("name=undecided", "tuned=first"), chosen),
        "thirty": settle(runs, invariant),
        "unequal": settle(runs, settings("name=unequal", "d=[1,10]"), (), lambda c: c.method != "sum" or c.seed < 2),
        "folds": settle(runs, settings("name=folds", "seed=[0,1]", "d=[1,10]", "data.splits=stratified:4")),
        "half": settle(runs, few, (), lambda c: c.seed == 0 and (c.method, c.d) != ("sum", 10)),
    }


# What is true, read from the settings


def split_seeds(sweep: Settled) -> set[int | None]:
    return {cell.data.split_seed for cell in sweep.finished}


def own_splits(sweep: Settled) -> bool:
    return split_seeds(sweep) == {None}


def seeds_of(sweep: Settled, method: str, d: int) -> list[int]:
    return sorted(cell.seed for cell in sweep.finished if (cell.method, cell.d) == (method, d))


def several(sweep: Settled) -> bool:
    return len({cell.seed for cell in sweep.finished}) > 1


def can_test(sweep: Settled) -> bool:
    kinds = {(cell.method, cell.d) for cell in sweep.finished}
    enough = [(method, d) for method, d in kinds if len(seeds_of(sweep, method, d)) >= 3]
    return any(sum(d == other for _, other in enough) > 1 for _, d in enough)


def auc(sweep: Settled, method: str, d: int, split: str = "holdout") -> float:
    last = sweep.settings.train.epochs
    return mean(cell_metrics(method, d, seed, last)[f"{split}/auc"] for seed in seeds_of(sweep, method, d))


def methods(sweep: Settled) -> list[str]:
    return [name for name in ("ordering", "identity", "sum") if any(cell.method == name for cell in sweep.finished)]


def widths(sweep: Settled) -> list[int]:
    return sorted({cell.d for cell in sweep.finished})


def changed(sweep: Settled) -> set[str]:
    """Only identity sees the order of the nodes."""
    return {"identity"} & set(methods(sweep))


def told(text: str, read: Callable[[RunSettings], str], sweep: Settled) -> bool:
    """`0.001`, or `0.001 (sum), 0.02 (identity at d = 1 and 10)`: each cell has the value that is told for it."""
    if " (" not in text:
        return {read(cell) for cell in sweep.finished} == {text}
    spoken: dict[tuple[str, int], str] = {}
    for value, places in re.findall(r"([^(),]+) \(([^)]*)\)", text):
        for method, ds in re.findall(r"(\w+)(?: at d = ((?:\d+(?:, | and )?)+))?", places):
            for d in [int(d) for d in re.findall(r"\d+", ds)] or widths(sweep):
                spoken[method, d] = value.strip()
    return all(spoken[cell.method, cell.d] == read(cell) for cell in sweep.finished) and len(spoken) > 1


def rate(cell: RunSettings) -> str:
    return f"{cell.train.learning_rate:.3g}"


def rivals(sweep: Settled) -> list[tuple[str, int]]:
    """Methods and d with at least three seeds, if any has as many."""
    places = [(method, d) for method in methods(sweep) for d in widths(sweep)]
    least = min(3, max(len(seeds_of(sweep, *place)) for place in places))
    return [place for place in places if len(seeds_of(sweep, *place)) >= least]


def best(sweep: Settled, text: re.Match[str]) -> bool:
    """No finished method with as many seeds has a better mean."""
    method, d = text["method"], int(text["d"])
    top = max(auc(sweep, *place) for place in rivals(sweep))
    right = auc(sweep, method, d) == pytest.approx(top) and float(text["value"]) == pytest.approx(top, abs=6e-4)
    return right and int(text["seeds"]) == len(seeds_of(sweep, method, d))


def margin(sweep: Settled, text: re.Match[str]) -> bool:
    d = int(text["d"])
    apart = max(auc(sweep, *place) for place in rivals(sweep) if place[1] == d) - auc(sweep, text["rival"], d)
    if " on this one split" in text[0] and own_splits(sweep):
        return False
    return float(text["by"]) == pytest.approx(apart, abs=6e-4) and ("luck" in text[0] or can_test(sweep))


def losses(sweep: Settled, text: re.Match[str]) -> bool:
    keep = set(methods(sweep)) - changed(sweep)
    lost = {name: float(value) for name, value in re.findall(r"(\w+) loses (\d+\.\d+)", text[0])}
    kept = set(text[0].removeprefix("Permuted nodes: ").split(" keep")[0].split(", "))
    return kept == keep and lost == {name: pytest.approx(0.08, abs=1e-3) for name in changed(sweep)}


def gains(sweep: Settled, text: re.Match[str]) -> bool:
    spoken = re.findall(r"(\w+) at d = (\d+) ([-+]?[\d.]+)[^;]*, ([^,;]+?)(?:;|\.$)", text[0])
    kept = {choice.method for choice in sweep.choices if choice.trial == 0}
    right = {name: (verdict == "the default settings were chosen") == (name in kept) for name, _, _, verdict in spoken}
    return sweep.default and set(right) == set(methods(sweep)) and all(right.values())


def counted(sweep: Settled, text: re.Match[str]) -> bool:
    """Three metrics, and the splits that count: a permuted holdout only where it is not the holdout again."""
    kinds = {(cell.method, cell.d) for cell in sweep.finished}
    return int(text["count"]) == sum(3 * (3 if method in changed(sweep) else 2) for method, _ in kinds)


def same_command(sweep: Settled, text: re.Match[str]) -> bool:
    """The printed command gives the settings of the sweep."""
    words = shlex.split(text["words"])
    return read_settings(SweepSettings, words) == sweep.settings


def default_command(sweep: Settled, text: re.Match[str]) -> bool:
    """It runs the same cells, untuned, on the split of the tuning."""
    ran = read_settings(SweepSettings, shlex.split(text["words"]))
    data = sweep.settings.data.model_copy(update={"split_seed": 0})
    wanted = {"name": f"{sweep.settings.name}.default", "tuned": [], "data": data}
    return not sweep.default and ran == sweep.settings.model_copy(update=wanted)


def seeds_told(sweep: Settled, text: re.Match[str]) -> bool:
    def as_words(cell: RunSettings) -> str:
        seeds = seeds_of(sweep, cell.method, cell.d)
        return {1: f"{seeds[0]}", 2: f"{seeds[0]} and {seeds[-1]}"}.get(len(seeds), f"{seeds[0]} to {seeds[-1]}")

    return told(text[1], as_words, sweep)


def missing(sweep: Settled, text: re.Match[str]) -> bool:
    total, done = len(sweep.settings.cells()), len(sweep.finished)
    return [int(number) for number in re.findall(r"\d+", text[0])] == [done, total, done, total - done]


Rule = tuple[str, Callable[[Settled, re.Match[str]], bool]]
D = "PROTEINS_full"
ALWAYS = lambda sweep, text: True  # noqa: E731  (it defines a term, or names a table or a figure)
RULES: list[Rule] = [
    # headings, definitions
    (rf"{D}(: what differs from the paper's recipe|: holdout AUC|: cost and quality|: trained readouts)?", ALWAYS),
    (
        rf"{D}: (accuracy|AUC|AP|loss) over epochs|Where it was run|By method|All 336 numbers|Extremes over seeds\.",
        ALWAYS,
    ),
    (r"Effect size: Hedges' g of the paired differences\.|Training rows are not tested( and have no bold)?\.", ALWAYS),
    (r"raw node attributes as features \(the paper does not say\)|Each of its numbers is a single run\.", ALWAYS),
    (
        r"Small print: the paper's number, a single run; .*|Hollow: the paper's number, a single run by another .*",
        ALWAYS,
    ),
    (r"The paper: R\. Balan, .* 16 tables\.|“Inside”: .*|Even in a perfect .*|One of those in the paper, .*", ALWAYS),
    (r"Permuted nodes do not change an invariant method, so .*|A description, not a test\.", ALWAYS),
    (r"Measured at the end of every run .*|Lipschitz ratios: .*|Ratios of readouts .*", ALWAYS),
    (
        r"Batch error: .*|Smallest gap: .*|Invariance error: [^;]*; about 1e-15 is rounding in double .*",
        ALWAYS,
    ),
    (
        r"They are measured on real graphs and do not prove a bound\.|All that follows is about the finished ones\.",
        ALWAYS,
    ),
    (r"Means over fewer seeds have wider intervals; .*|Holdout against the same holdout with every graph's .*", ALWAYS),
    (rf"{D}, (accuracy|AUC|AP), d = (?P<d>\d+) \(higher is better\)", lambda s, m: int(m["d"]) in widths(s)),
    (rf"{D}: AUC against d", lambda s, m: len(widths(s)) > 1),
    (rf"{D}: what permuted nodes cost", lambda s, m: bool(changed(s))),
    (
        r"What differs from the paper's recipe is listed at the top\.|The paper's numbers come from another recipe; .*",
        ALWAYS,
    ),
    # the paper's recipe
    (r"model\.last_activation=none \(.*", lambda s, m: {c.model.last_activation for c in s.finished} == {"none"}),
    (r"model\.dropout=(.*) \(the paper does not say\)", lambda s, m: told(m[1], lambda c: str(c.model.dropout), s)),
    (r"train\.epochs=(.*) \(the paper: 300\)", lambda s, m: told(m[1], lambda c: str(c.train.epochs), s)),
    (r"train\.optimizer=adam, train\.learning_rate=(.*) \(the paper names neither\)", lambda s, m: told(m[1], rate, s)),
    (r"a random split per seed \(the paper: one.*", lambda s, m: own_splits(s)),
    (r"one split for all seeds \(split_seed=(\d+)\).*", lambda s, m: split_seeds(s) == {int(m[1])}),
    # answers
    (
        r"Best: (?P<method>\w+) at d = (?P<d>\d+), holdout AUC (?P<value>[\d.]+)( ± .*)? over (?P<seeds>\d) seeds?\.",
        best,
    ),
    (r"By (?P<by>[\d.]+) over (?P<rival>\w+), the next at d = (?P<d>\d+)[:;] .*", margin),
    (
        r"Left out, with fewer than 3 seeds: sum at d = 1, sum at d = 10\.",
        lambda s, m: 0 < len(seeds_of(s, "sum", 1)) < 3,
    ),
    (
        r"Between \w+ and \w+ these seeds could detect a difference of [\d.]+ \(found in 80% .*",
        lambda s, m: can_test(s),
    ),
    (r"Permuted nodes: .*", losses),
    (r"Invariance, by the certificates: all methods are invariant\.", lambda s, m: not changed(s)),
    (r"Invariance, by the certificates: all but identity \(error 0\.5\)\.", lambda s, m: changed(s) == {"identity"}),
    (r"Tuned against default settings, holdout AUC: .*", gains),
    (r"The paper: (?P<count>\d+) of its numbers are measured here; .*", counted),
    (r"Of its 336 numbers 256 count, and (?P<count>\d+) of these are measured here; .*", counted),
    # what was run
    (
        r"Nothing is missing: all (\d+) cells are finished\.",
        lambda s, m: int(m[1]) == len(s.finished) == len(s.settings.cells()),
    ),
    (r"This report is not complete: .*", missing),
    (r"Missing: (\d+) cells", lambda s, m: int(m[1]) == len(s.settings.cells()) - len(s.finished)),
    (r"graphs: 913 for training, 200 in the holdout", ALWAYS),  # as the cells stored them
    (r"splits: every seed has a random one of its own", lambda s, m: own_splits(s)),
    (
        r"splits: all seeds hold out the same graphs \(data\.split_seed=(\d)\)",
        lambda s, m: split_seeds(s) == {int(m[1])},
    ),
    (r"methods: (.*)", lambda s, m: m[1].split(", ") == methods(s)),
    (r"d: (.*)", lambda s, m: [int(d) for d in m[1].split(", ")] == widths(s)),
    (r"seeds: (.*)", seeds_told),
    (
        r"training: epochs (\d+); batch size (\d+); optimiser (\w+); rate (.*); bits 32",
        lambda s, m: (
            told(m[4], rate, s)
            and {(c.train.epochs, c.train.batch_size, c.train.optimizer) for c in s.finished}
            == {(int(m[1]), int(m[2]), m[3])}
        ),
    ),
    (
        r"model: Γ gcn; layers 3; units 50; layers of the head 3; units of the head 150; dropout (.*); .* parameters",
        lambda s, m: told(m[1], lambda cell: str(cell.model.dropout), s),
    ),
    (r"command: permlab sweep (?P<words>.*)", same_command),
    (r"What tuning gained on the holdout is not known: .*", lambda s, m: not s.default),
    (r"This runs them; then write the report again: permlab sweep (?P<words>.*)", default_command),
    (r"commit: (.*)", lambda s, m: m[1] == COMMIT),
    (
        r"versions: permlab 0\.1\.0, Python 3\.11\.7|hardware: threads per cell 1|numerics: engine fast",
        ALWAYS,
    ),  # as stored
    # tables, tests
    (
        r"Mean ± 95 % interval over seeds \(Student's t\)\.|Means and 95 % intervals over seeds\.",
        lambda s, m: several(s),
    ),
    (r"Bars are 95 % intervals over seeds\.|Lines are means over seeds, bands .*", lambda s, m: several(s)),
    (r"Values of one seed each, without intervals\.|One seed each, so there are no .*", lambda s, m: not several(s)),
    (r"Lines are of one seed each\.", lambda s, m: not several(s)),
    (r"Bold: among the methods with at least 3 seeds the best mean, and .*", lambda s, m: can_test(s)),
    (r"Nothing is bold: No test is possible: .*|A difference may well be luck\.", lambda s, m: not can_test(s)),
    (r"No test is possible: no two methods have 3 or more finished seeds in common\.", lambda s, m: not can_test(s)),
    (rf"{D}: with permuted nodes every metric of every method is .*", lambda s, m: not changed(s)),
    (
        r"With permuted nodes (.*) (is|are) as on the holdout\.",
        lambda s, m: set(m[1].split(", ")) == set(methods(s)) - changed(s),
    ),
    (
        r"Not drawn, because it changes nothing for them: (.*)\.",
        lambda s, m: set(m[1].split(", ")) == set(methods(s)) - changed(s),
    ),
    (
        r"Every seed has a random split of its own, .*|The splits of two seeds overlap.*",
        lambda s, m: own_splits(s) and can_test(s),
    ),
    (r"The intervals of the tables are not corrected: .*", lambda s, m: own_splits(s)),
    (
        r"All seeds hold out the same graphs, and .*|Tests and intervals .*",
        lambda s, m: not own_splits(s),
    ),
    (r"On another split the methods .*|Runs on one split are independent, .*", lambda s, m: not own_splits(s)),
    (r"Holm's correction covers everything .*|A difference that is not significant .*", lambda s, m: can_test(s)),
    (
        rf"{D}, AUC, holdout(, permuted)?: (\d+) of (\d+) pairs of methods differ significantly( on this split)? \(.*",
        lambda s, m: bool(m[4]) != own_splits(s) and can_test(s) and (not m[1] or bool(changed(s))),
    ),
    (r"What difference between two methods these seeds could detect: .*", lambda s, m: can_test(s)),
    (r"Mean ranks over d and seeds, by the headline metric: .*|A test of ranks needs .* here there is one\.", ALWAYS),
    (r"Mean rank, holdout(, permuted)?", lambda s, m: not m[1] or bool(changed(s))),
    (r"One point per method and d(, joined by d)?\.", lambda s, m: bool(m[1]) == (len(widths(s)) > 1)),
    # tuning
    (
        r"Each \(data set, method, d\) was tuned separately .*|Trial 0 is the default settings\.",
        lambda s, m: bool(s.choices),
    ),
    (
        r"A trial's value is .*|The best of many noisy trials .*|Best against default, validation",
        lambda s, m: bool(s.choices),
    ),
    (r"All seeds of the sweep hold out the same graphs, .*", lambda s, m: bool(s.choices) and not own_splits(s)),
    (r"Tuned against default \(mean .*", lambda s, m: s.default),
    (r"Chosen settings|History of the studies|What mattered: .*|Parallel coordinates", lambda s, m: bool(s.choices)),
    (r"Points: finished trials; .*|One line per finished trial; .*|Logarithmic where .*", lambda s, m: bool(s.choices)),
    (r"Axes of (.*): 1 train\.learning_rate, 2 AUC\.", lambda s, m: m[1].split(", ") == [c.method for c in s.choices]),
]


def sentences(block: Block) -> list[str]:
    """All text on the page of a paragraph, a list, a table, a figure, one by one."""
    if isinstance(block, Items):
        return [text for line in [block.title, *block.lines] for text in _parts(line)]
    if isinstance(block, Table):
        return [block.title]
    return [block.title, *_parts(block.caption)] if isinstance(block, Figure) else _parts(block)


def _parts(text: str) -> list[str]:
    kept_whole = re.match(r"(By|Between|command:|This runs) ", text)
    return [text] if kept_whole else [part for part in re.split(r"(?<=[^A-Z][.!?]) (?=[A-Z“])", text) if part]


@pytest.mark.parametrize("name", ["tuned", "undecided", "thirty", "unequal", "half"])
def test_every_sentence_is_true(sweeps: dict[str, Settled], name: str) -> None:
    sweep = sweeps[name]
    findings = Findings(sweep.stored)
    sections = [section for make in SECTIONS if (section := make(findings))]
    spoken = dict.fromkeys(
        text for section in sections for block in section.blocks for text in sentences(block) if text
    )
    unknown, wrong = [], []
    for text in spoken:
        known = [(check, match) for rule, check in RULES if (match := re.fullmatch(rule, text))]
        unknown += [] if known else [text]
        wrong += [] if all(check(sweep, match) for check, match in known) else [text]
    assert (unknown, wrong) == ([], []) and len(spoken) > 50


def test_folds_are_not_called_seeds(sweeps: dict[str, Settled]) -> None:
    """Intervals and tests are over folds; only curves and certificates are over all runs."""
    sections = [section for make in SECTIONS if (section := make(Findings(sweeps["folds"].stored)))]
    blocks = [block for section in sections for block in section.blocks]
    spoken = [text for block in blocks for text in sentences(block)]
    assert [text for text in spoken if re.search(r"\bseeds?\b(?!=)", text)] == ["seeds: 0 and 1"]
    headers = {word for block in blocks if isinstance(block, Table) for word in block.header}
    assert "folds" in headers and "seeds" not in headers
    said = " ".join(spoken)
    for text in (
        "data.splits=stratified:4 (the paper: one",
        "splits: data.splits=stratified:4, folds 0 to 3",
        "over 4 folds.",
        "these folds could detect",
        "Means and 95 % intervals over folds.",
        "Bars are 95 % intervals over folds.",
        "Lines are means over the runs of all folds,",
        "Extremes over the runs of all folds.",
        "Bold: among the methods with at least 3 folds",
        "Mean ranks over d and folds",
    ):
        assert text in said


def test_what_must_be_said_is_said(sweeps: dict[str, Settled]) -> None:
    """The differences from the recipe come first; rates and splits are those that were used."""
    sections = {name: [s for make in SECTIONS if (s := make(Findings(sweep.stored)))] for name, sweep in sweeps.items()}
    for name in sweeps:
        first = sections[name][0].blocks[0]
        assert isinstance(first, Items) and "what differs from the paper's recipe" in first.title
    page = {
        name: " ".join(t for s in parts for b in s.blocks for t in sentences(b)) for name, parts in sections.items()
    }
    assert "rate 0.001 (sum), 0.00644 (ordering), 0.02 (identity)" in page["tuned"]
    assert "split of its own" not in page["tuned"] and "split of its own" in page["thirty"]
    assert "epochs 30;" in page["thirty"] and "could detect" in page["thirty"]
    assert "seeds: 0 and 1 (sum), 0 to 3 (ordering, identity)" in page["unequal"]
    assert "5 of 12 cells" in page["half"] and "Tuned against default" in page["tuned"]
