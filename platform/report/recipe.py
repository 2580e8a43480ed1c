"""How the sweep differs from the paper: every difference is listed beside the numbers that are compared."""

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
OUTSIDE = {"train.engine", "train.eval_every", "train.checkpoint_every", "train.profile"}  # not part of a recipe
REASONS = {"model.last_activation": ", with which d = 1 dies"}


def differences(sweep: "StoredSweep", dataset: str) -> list[str]:
    """One phrase per difference, from the settings of the finished cells; empty if the paper lacks the data set."""
    if dataset not in RECIPES:
        return []
    ours = sweep.settings(dataset)
    if not ours:
        return ["the settings of these runs are not stored"]
    phrases = other_settings(ours, dataset)
    phrases.append(
        ", ".join(f"{name}={told(ours[name])}" for name in OPEN if name in ours) + " (the paper names neither)"
    )
    held_out = {int(size) for size in sweep.sizes(dataset, "holdout")} - {HOLDOUT[dataset]}
    if held_out:
        sizes = " or ".join(f"{size:,}" for size in sorted(held_out))
        phrases.append(f"{sizes} graphs held out (the paper: {HOLDOUT[dataset]:,})")
    phrases.append(f"{_splits(ours)} (the paper: one, unknown to us)")
    if set(ours.get("model.feature_scaling", {"none"})) == {"none"}:
        phrases.append("raw node attributes as features (the paper does not say)")
    if "sort" in sweep.methods:
        phrases.append("sort breaks ties by the columns before the last (otherwise it would depend on the input order)")
    return phrases


def _splits(ours: Used) -> str:
    if drawn := ours.get("data.splits", {}).keys() - {"None"}:
        return f"data.splits={listed(sorted(drawn))}"
    seeds = ours.get("data.split_seed", {"None": set()})
    return (
        "a random split per seed" if set(seeds) == {"None"} else f"one split for all seeds (split_seed={told(seeds)})"
    )


def other_settings(ours: Used, dataset: str) -> list[str]:
    """One phrase per setting that has other values here than in our recipe for the paper."""
    return [
        f"{name}={told(ours[name])} "
        + ("(the paper does not say)" if name in UNNAMED else f"(the paper: {value}{REASONS.get(name, '')})")
        for name, value in recipe_of(dataset).items()
        if name not in OPEN and set(ours.get(name, {value})) != {value}
    ]


def recipe_of(dataset: str) -> dict[str, str]:
    """The paper's settings of model and training, as text; our recipe, except for the ReLU after Γ's last layer."""
    settings = read_settings(RunSettings, [RECIPES[dataset]])
    every = {name: str(value) for name, value, _ in describe(RunSettings, settings)}
    chosen = {name: value for name, value in every.items() if name.startswith(("model.", "train."))}
    chosen |= {name: every[name] for name in ("readout", "data.validation")} | {"model.last_activation": "relu"}
    return {name: value for name, value in chosen.items() if name not in OUTSIDE}
