"""How the sweep differs from the paper: every difference is listed beside the numbers that are compared."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from permlab.platform.report.used import Used, listed, told
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import describe, read_settings

if TYPE_CHECKING:
    from permlab.platform.report.stored import StoredSweep

RECIPES = {"proteins_full": "paper-proteins", "qm9": "paper-qm9"}
HOLDOUT = {"proteins_full": 200, "qm9": 20_000}
OPEN = ("train.optimizer", "train.learning_rate")  # the paper names neither
# Nor these, which are told where they are set
UNNAMED = ("model.dropout", "train.weight_decay", "model.norm", "model.bias", "model.feature_scaling", "model.init")
# Not part of a recipe
OUTSIDE = {"train.engine", "train.eval_every", "train.checkpoint_every", "train.profile", "objective.metrics"}
SAME_TASK = {  # other names of what the paper measures
    "proteins_full": {"data.target": {"class"}, "objective.kind": {"auto", "binary"}},
    "qm9": {"data.target": {"gap"}, "objective.kind": {"auto", "regression"}},
}
NONE = {"None": "none"}
REASONS = {"model.last_activation": ", with which d = 1 dies"}


def differences(sweep: "StoredSweep", dataset: str) -> list[str]:
    """One phrase per difference, from the settings of the finished cells; empty if the paper lacks the data set."""
    ours, name = sweep.settings(dataset), paper_name(dataset)
    if name and not ours:
        return ["the settings of these runs are not stored"]
    held_out = {int(size) for size in sweep.sizes(dataset, "holdout")}
    return phrases(ours, dataset, held_out, sweep.finished_of(dataset)["method"])


def paper_name(dataset: str) -> str:
    """The paper's data set that this one is, or is a part of; empty if the paper has none."""
    name = dataset.partition(",")[0]
    return name if name in RECIPES else ""


def comparable(ours: Used, dataset: str) -> bool:
    """Whether the paper's numbers mean the same: its data set, its target, its kind of task."""
    same = SAME_TASK.get(dataset, {})
    return bool(same) and all(set(ours.get(name, {"None"})) <= {*values, "None"} for name, values in same.items())


def phrases(ours: Used, dataset: str, held_out: set[int], methods: Iterable[str]) -> list[str]:
    """One phrase per difference: settings as used, sizes of the holdout, what the paper leaves open."""
    name = paper_name(dataset)
    if not name:
        return []
    told_of = [f"{dataset} is made from the paper's data set, but is not the same"] if dataset != name else []
    told_of += other_settings(ours, name)
    told_of.append(", ".join(f"{key}={told(ours[key])}" for key in OPEN if key in ours) + " (the paper names neither)")
    if held_out - {HOLDOUT[name]}:
        sizes = " or ".join(f"{size:,}" for size in sorted(held_out - {HOLDOUT[name]}))
        told_of.append(f"{sizes} graphs held out (the paper: {HOLDOUT[name]:,})")
    told_of.append(f"{_splits(ours)} (the paper: one, unknown to us)")
    if set(ours.get("model.feature_scaling", {"none"})) == {"none"}:
        told_of.append("raw node attributes as features (the paper does not say)")
    if "sort" in set(methods):
        told_of.append("sort breaks ties by the columns before the last (otherwise it would depend on the input order)")
    return told_of


def _splits(ours: Used) -> str:
    if drawn := ours.get("data.splits", {}).keys() - {"None"}:
        return f"data.splits={listed(sorted(drawn))}"
    seeds = ours.get("data.split_seed", {"None": set()})
    return (
        "a random split per seed" if set(seeds) == {"None"} else f"one split for all seeds (split_seed={told(seeds)})"
    )


def other_settings(ours: Used, dataset: str) -> list[str]:
    """One phrase per setting that has other values here than in our recipe for the paper."""
    same = SAME_TASK[dataset]
    return [
        f"{name}={told(ours[name])} "
        + (
            "(the paper does not say)"
            if name in UNNAMED
            else f"(the paper: {NONE.get(value, value)}{REASONS.get(name, '')})"
        )
        for name, value in recipe_of(dataset).items()
        if name not in OPEN and not set(ours.get(name, {value})) <= {value, *same.get(name, ())}
    ]


def recipe_of(dataset: str) -> dict[str, str]:
    """The paper's settings of model, objective and training, as text; our recipe, except for the ReLU after Γ's last
    layer.
    """
    settings = read_settings(RunSettings, [RECIPES[dataset]])
    every = {name: str(value) for name, value, _ in describe(RunSettings, settings)}
    chosen = {name: value for name, value in every.items() if name.startswith(("model.", "objective.", "train."))}
    further = ("readout", "backbone", "data.validation", "data.target", "data.train_only")
    chosen |= {name: every[name] for name in further} | {"model.last_activation": "relu"}
    return {name: value for name, value in chosen.items() if name not in OUTSIDE}
