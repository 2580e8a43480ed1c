from pathlib import Path
from typing import get_args

import pytest

from permlab.platform.errors import ConfigError
from permlab.platform.settings.run import ModelSettings, RunSettings, cell_key
from permlab.platform.settings.sweep import SweepSettings
from permlab.platform.settings.words import describe, read_settings, recipes
from permlab.platform.settings.yaml_text import load_yaml
from permlab.readouts.catalogue import build
from permlab.readouts.errors import ReadoutError
from permlab.readouts.names import NAMES
from permlab.tasks.initial_weights import INITIAL
from permlab.tasks.norms import NORMS
from permlab.tasks.scaling import SCALINGS


def read(*words: str) -> RunSettings:
    return read_settings(RunSettings, words)


def test_later_words_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("d: 50\ntrain: {epochs: 7, learning_rate: 1e-2}\n")
    settings = read("paper-qm9", str(file), "train.epochs=3", "readout.kernels=20", "method=kernels")
    assert (settings.dataset, settings.d, settings.train.epochs) == ("qm9", 50, 3)
    assert settings.train.learning_rate == 0.01 and settings.readout == {"kernels": 20}


@pytest.mark.parametrize("text", ["0.001", "1e-3", "1E-3", ".001"])
def test_numbers_as_people_write_them(text: str) -> None:
    assert read(f"train.learning_rate={text}").train.learning_rate == 0.001


@pytest.mark.parametrize("recipe", recipes())
def test_recipes_are_valid_and_as_in_the_paper(recipe: str) -> None:
    settings = read_settings(SweepSettings, [recipe])
    model, train = settings.model, settings.train
    assert (model.layers, model.hidden, model.head_layers, model.head_hidden, train.batch_size) == (3, 50, 3, 150, 128)
    assert train.epochs == (
        300 if recipe.startswith("paper") else {"quick": 10, "league": 30, "fair-comparison": 100}[recipe]
    )


def test_the_league_has_every_readout_that_takes_both_data_sets() -> None:
    heads = [method.partition(",")[0] for method in read_settings(SweepSettings, ["league"]).method]
    left_out = {name for name in NAMES if name not in heads}
    assert len(set(heads)) + len(left_out) == len(NAMES)
    for name in left_out:  # each is refused at one of the sizes, whatever its options
        with pytest.raises(ReadoutError, match="limit is|at most|takes d = "):
            build(name, d=10, max_nodes=620)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trian.epochs=3"], "unknown setting trian: did you mean train. choose from dataset, method, d"),
        (["train.epoch=3"], "unknown setting train.epoch: did you mean train.epochs. choose from epochs, batch_size"),
        (["method=orderin"], "method=orderin: unknown readout 'orderin': did you mean ordering. choose from ordering"),
        (["d=0"], "d=0: input should be greater than or equal to 1"),
        (["d=ten"], "d=ten: input should be a valid integer"),
        (["seed=-1"], "seed=-1"),
        (["dataset=qm8"], "unknown data set 'qm8'; did you mean 'qm9'?"),
        (["train.optimizer=lbfgs"], "train.optimizer=lbfgs: input should be 'adam', 'adamw', 'sgd' or 'momentum'"),
        (["train.learning_rate=nan"], "train.learning_rate=nan"),
        (["train.fresh_permutations=true"], "train.fresh_permutations needs train.permutations above 0"),
        (["train.patience=3"], "train.patience needs .* data.validation"),
        (["train.patience=0", "data.validation=9"], "train.patience=0"),
        (["train.gradient_clip=0"], "train.gradient_clip=0: input should be greater than 0"),
        (["train.gradient_clip=inf"], "train.gradient_clip=inf"),
        (["train.scheduler=step"], "train.scheduler=step: input should be 'none', 'cosine' or 'plateau'"),
        (["train.precision=16"], "train.precision=16: input should be 32, 64, 'bf16-mixed' or '16-mixed'"),
        (["train.engine=faster"], "train.engine=faster: input should be 'auto', 'plain' or 'fast'"),
        (["train.engine=fast", "train.gradient_clip=1"], "train.engine=fast .*train.gradient_clip=1"),
        (["d.x=3", "d=0"], "d=0"),
        (["d=0", "seed=-1"], "d=0.*; seed=-1"),
        (
            ["nowhere.yaml"],
            r"neither key=value, nor a YAML file, nor a recipe \(fair-comparison, league, paper-proteins, .*quick\)",
        ),
        (["d=3", "d.x=3"], "'d' is a value, not a group"),
        (["data.splits=random"], "data.splits=random: choose scaffold, stratified:K .* or a file that ends in .json"),
        (["data.splits=stratified:1"], "choose scaffold, stratified:K with K from 2"),
        (["data.splits=stratified:9"], "data.splits=stratified:9 has folds; choose one with data.fold"),
        (["data.splits=stratified:9", "data.fold=1", "data.holdout=9"], "leaves no choice of data.holdout"),
        (["data.splits=a.json", "data.fold=1", "data.validation=9"], "a.json leaves no choice of data.validation"),
        (["data.splits=scaffold", "data.split_seed=9"], "scaffold leaves no choice of data.split_seed"),
        (["data.fold=3"], "data.fold needs folds: set data.splits"),
        (["data.test=true"], "data.test is for runs with a validation part"),
        (["train.pos_weight=0"], "train.pos_weight=0"),
        (["train.pos_weight=heavy"], "train.pos_weight=heavy"),
        (["train.engine=fast", "train.pos_weight=balanced"], "train.engine=fast .*train.pos_weight=balanced"),
        (["d=true"], "d=True: true and false do not fit here"),
        (["train.learning_rate=true"], "true and false do not fit here"),
        (["d=99999999"], "d=99999999: input should be less than or equal to 10000"),
        (["model.hidden=99999999"], "model.hidden=99999999: input should be less than"),
        (["model.hidden=10000", "model.layers=9"], "the model would have .* weights; the limit is 100,000,000"),
        ([f"d={'9' * 5000}"], "d=9+…: unable to parse input string as an integer, exceeded maximum size"),
        ([f"seed={'9' * 4000}"], "seed=9+…: a whole number is at most 9223372036854775807"),
        ([f"readout.key={'[' * 5000}{']' * 5000}", "d=0"], "d=0"),
        ([f"readout{'.a' * 5000}=1"], "the call has more than 20 levels"),
        (["experiment=../../../x"], "'../../../x' cannot be a name, which becomes a folder"),
        (["experiment=.hidden"], "cannot be a name"),
        ([f"experiment={'a' * 300}"], "cannot be a name"),
        (["a" * 300], "'a+…' is neither key=value, nor a YAML file"),
        (["runs=/etc/hostname"], "runs=/etc/hostname: /etc/hostname is not a folder"),
        (["runs=/etc/hostname/x"], "/etc/hostname is not a folder"),
        ([f"runs={'a' * 300}"], "it cannot be a folder: File name too long"),
    ],
)
def test_what_is_wrong_is_one_line(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(*words)
    assert "\n" not in str(caught.value)


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)

MERGES = f"a0: &a0 {{{', '.join(f'k{i}: x' for i in range(10))}}}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "is not YAML"),
        ("- 1\n", "must hold settings"),
        (BOMB, "holds more than 100,000 values"),
        (MERGES, "holds more than 100,000 values"),
        ("readout: &a\n  inner: *a\n", "has more than 20 levels"),
        ("readout: {x: &a [*a]}\n", "has more than 20 levels"),
        (f"readout: {'[' * 5000}{']' * 5000}\n", "has more than 20 levels"),
        (f"d: {'9' * 5000}\n", "holds a number of more than 4,300 digits"),
        ("readout: {x: !!binary aGk=}\n", "holds a bytes; settings are numbers, words, lists and groups"),
        ("1: 2\n", "has the key 1, which is not a word"),
        (f"# {'x' * 1_000_001}\n", "has 1,000,004 characters; the limit is 1,000,000"),
    ],
)
def test_files_that_are_not_settings(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        read(str(tmp_path / "bad.yaml"))
    assert "\n" not in str(caught.value)


def test_words_and_numbers_are_read_as_people_write_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "experiment: 2026-11-16\nd: 010\ntrain: {learning_rate: 1e-3}\nreadout: {x: on, y: 12:30, z: true}\n"
    )
    settings = read(str(file))
    assert (settings.experiment, settings.d, settings.train.learning_rate) == ("2026-11-16", 10, 0.001)
    assert settings.readout == {"x": "on", "y": "12:30", "z": True}
    typed = read("experiment=2026-11-16", "d=010", "train.learning_rate=1e-3", "readout.x=on", "readout.y=12:30")
    assert (typed.experiment, typed.d, typed.train.learning_rate) == ("2026-11-16", 10, 0.001)
    assert typed.readout == {"x": "on", "y": "12:30"}
    assert [read(f"experiment={name}").experiment for name in ("010", "1e3", "true")] == ["010", "1e3", "true"]


def test_anchors_may_still_be_used(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("model: &wide {hidden: 90}\ntrain: {epochs: 3}\n")
    assert read(str(tmp_path / "mine.yaml")).model.hidden == 90
    (tmp_path / "merged.yaml").write_text("model: {<<: {hidden: 90, layers: 2}, layers: 4}\n")
    assert (read(str(tmp_path / "merged.yaml")).model.hidden, read(str(tmp_path / "merged.yaml")).model.layers) == (
        90,
        4,
    )


def test_only_what_merge_keys_copy_counts_towards_their_limit() -> None:
    keys = ", ".join(f"k{i}: x" for i in range(30_000))
    tree = load_yaml(f"a: &a {{{keys}}}\nb: {{<<: *a}}\nc: {{<<: *a}}\n")
    assert tree["a"] == tree["b"] == tree["c"] and len(tree["a"]) == 30_000


def test_one_data_set_has_one_name_however_it_is_written() -> None:
    name = "synthetic,graphs=300,max_nodes=20"
    sweep = read_settings(SweepSettings, [f'dataset=["synthetic,max_nodes=20,graphs=300", "{name}"]'])
    assert set(sweep.dataset) == {name}
    assert [cell.dataset for cell in sweep.cells()] == [name]


@pytest.mark.parametrize(
    ("field", "table", "off"),
    [("norm", NORMS, "none"), ("init", INITIAL, "default"), ("feature_scaling", SCALINGS, "none")],
)
def test_settings_name_what_their_tables_hold(field: str, table: dict, off: str) -> None:
    assert get_args(ModelSettings.model_fields[field].annotation) == (off, *table)
    assert [getattr(read(f"model.{field}={name}").model, field) for name in table] == list(table)


def test_every_setting_says_what_it_does() -> None:
    assert all(what for _, _, what in describe(RunSettings))


@pytest.mark.parametrize("field", ["train.gradient_clip", "train.patience", "train.permutations", "threads"])
def test_none_is_written_as_the_help_writes_it(field: str) -> None:
    assert {key: value for key, value, _ in describe(RunSettings, read(f"{field}=none"))}[field] is None


def test_the_key_covers_settings_that_change_a_result_by_more_than_rounding() -> None:
    base = cell_key(read(), "digest")
    same = [
        "accelerator=cpu",
        "threads=2",
        "runs=elsewhere",
        "track=false",
        "train.checkpoint_every=1",
        "train.profile=true",
        "train.engine=plain",
    ]
    for word in same:
        assert cell_key(read(word), "digest") == base, word
    other = ["d=11", "seed=1", "method=sort", "train.epochs=3", "model.dropout=0.1", "data.holdout=9", "readout.a=1"]
    other += ["train.scheduler=cosine", "train.gradient_clip=1", "train.precision=64", "train.precision=bf16-mixed"]
    keys = {cell_key(read(word), "digest") for word in other} | {cell_key(read(), "another digest"), base}
    assert len(keys) == len(other) + 2


def test_augment_is_identity_with_four_copies() -> None:
    assert (read("method=augment").permutations, read("method=identity").permutations) == (4, 0)
    explicit = read("method=augment", "train.permutations=4")
    assert cell_key(explicit, "x") == cell_key(read("method=augment"), "x")


def test_a_single_run_has_the_settings_of_a_sweeps_cell() -> None:
    """Threads included: they are not in the key, but in the numerics, and only equal numerics give equal bits."""
    (cell,) = SweepSettings().cells()
    assert cell == RunSettings(experiment=cell.experiment)


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("a4768fa4c765db3a3dda23a809876e2e", {}),
        ("22b905d06438fa66a7b93e63cb8254f7", {"method": "ordering", "d": 50, "seed": 3}),
        ("ac18265b83bc3fba709cd51d4f993917", {"data": {"split_seed": 0}}),
        (
            "7beeaa0320c31cedc7eef7e60122b9b1",
            {"method": "kernels", "readout": {"kernels": 200}, "train": {"epochs": 7}, "model": {"dropout": 0.1}},
        ),
        ("b01cdd1836ff0d1a4e9f750e8453d5c8", {"method": "augment"}),
    ],
)
def test_keys_of_runs_that_older_versions_stored_stay(key: str, settings: dict) -> None:
    """Settings that came later are not in the key while they have their defaults."""
    assert cell_key(RunSettings(**settings), "digest") == key


def test_settings_that_came_later_are_in_the_key_when_they_are_set() -> None:
    later = [
        {}, {"model": {"backbone": "gin"}}, {"backbone": {"heads": 2}}, {"objective": {"loss": "huber"}},
        {"objective": {"standardise": True}}, {"data": {"target": "gap"}}, {"method": "kernels"},
        {"method": "kernels,kernels=400"}, {"model": {"norm": "batch"}}, {"model": {"bias": False}},
        {"model": {"feature_scaling": "standard"}}, {"model": {"init": "he"}}, {"train": {"optimizer": "momentum"}},
    ]  # fmt: skip
    assert len({cell_key(RunSettings(**settings), "digest") for settings in later}) == len(later)


def test_options_under_a_readouts_name_are_for_it_alone() -> None:
    options = {"sigma": 1.0, "kernels": {"sigma": 2.0, "kernels": 50}, "set2set": {"steps": 5}}
    cells = SweepSettings(method=["kernels,mean=true", "set2set", "sum"], readout=options).cells()
    assert [cell.readout for cell in cells] == [
        {"sigma": 2.0, "kernels": 50}, {"sigma": 1.0, "steps": 5}, {"sigma": 1.0},
    ]  # fmt: skip
    alone = RunSettings(method="kernels", readout={"kernels": 50, "sigma": 2.0})
    assert alone == read("method=kernels", "readout.sigma=2.0", "readout.kernels.kernels=50")
    sweep = SweepSettings(method=["kernels", "sum"], readout={"kernels": {"kernels": 50}})
    assert [cell.readout for cell in sweep.cells()] == [{"kernels": 50}, {}]


def test_what_a_recipe_says_of_other_readouts_must_exist() -> None:
    with pytest.raises(ConfigError, match=r"^readout.kernels.bogus: kernels has no such option; .*\bsigma\b"):
        read("method=sum", "readout.kernels.bogus=1")
    with pytest.raises(ConfigError, match=r"^readout.kernels.bogus: kernels has no such option"):
        read_settings(SweepSettings, ["method=[sum,set2set]", "readout.kernels.bogus=2"])
    assert read("method=sum", "readout.kernels.sigma=2") == read("method=sum")


def test_training_alone_may_be_measured() -> None:
    assert read("data.train_only=true").splits_at_end == ("train",)
    with pytest.raises(ConfigError, match="without a validation part"):
        read("data.train_only=true", "data.validation=0.1")
    with pytest.raises(ConfigError, match=r"data.train_only measures no holdout: leave out data.test"):
        read("data.train_only=true", "data.test=true")
