"""The settings as they were used by the finished cells of a data set, by method where they differ."""

import pandas as pd

from permlab.platform.report.blocks import Items
from permlab.platform.report.stored import StoredSweep
from permlab.platform.report.tables import pretty
from permlab.platform.report.used import Used, listed, told, used
from permlab.platform.settings.run import RunSettings
from permlab.platform.settings.words import describe

LINES = {  # settings that are always told
    "training": {
        "epochs": "train.epochs",
        "batch size": "train.batch_size",
        "optimiser": "train.optimizer",
        "rate": "train.learning_rate",
        "bits": "train.precision",
    },
    "model": {
        "Γ": "model.backbone",
        "layers": "model.layers",
        "units": "model.hidden",
        "layers of the head": "model.head_layers",
        "units of the head": "model.head_hidden",
        "dropout": "model.dropout",
    },
}
TOLD = {  # in a line of their own, or of no influence on a result
    *(name for names in LINES.values() for name in names.values()),
    *(
        "dataset",
        "method",
        "d",
        "seed",
        "data.split_seed",
        "data.splits",
        "data.fold",
        "accelerator",
        "threads",
        "runs",
        "track",
        "experiment",
    ),
    *("train.engine", "train.checkpoint_every", "train.profile"),
}


def as_run(sweep: StoredSweep, dataset: str) -> Items:
    """The settings of the finished cells, by method where they differ."""
    cells, settings = sweep.finished_of(dataset), sweep.settings(dataset)
    methods = [method for method in sweep.methods if method in set(cells["method"])]
    lines = [
        f"graphs: {sizes_told(sweep, dataset)}",
        f"splits: {splits_told(settings)}",
        f"methods: {', '.join(methods)}",
        f"d: {', '.join(str(d) for d in sorted(cells['d'].unique()))}",
        f"seeds: {seeds_told(cells)}",
    ]
    for line, names in LINES.items():
        parts = [f"{word} {told(settings[name])}" for word, name in names.items() if name in settings]
        if line == "model" and (parameters := _parameters(cells)):
            parts.append(f"{parameters} parameters")
        lines += [f"{line}: {'; '.join(parts)}"] if parts else []
    if stopped := _stopped_early(sweep, cells):
        lines.append(stopped)
    if more := _not_default(settings):
        lines.append(f"other settings that are not the default: {'; '.join(more)}")
    return Items(lines, pretty(dataset))


def _not_default(settings: Used) -> list[str]:
    """`train.weight_decay=0.01` of each that is not told elsewhere."""
    defaults = {name: str(value) for name, value, _ in describe(RunSettings)}
    others = {name: values for name, values in settings.items() if name not in TOLD}
    return [f"{name}={told(values)}" for name, values in others.items() if set(values) != {defaults.get(name)}]


def sizes_told(sweep: StoredSweep, dataset: str) -> str:
    """`913 for training, 200 in the holdout`."""
    words = {"train": "for training", "validation": "for validation", "holdout": "in the holdout"}
    sizes = {part: [f"{int(size):,}" for size in sweep.sizes(dataset, part) if size] for part in words}
    return ", ".join(f"{listed(sizes[part])} {word}" for part, word in words.items() if sizes[part]) or "not stored"


def splits_told(settings: Used) -> str:
    """Where the holdouts come from."""
    seeds = settings.get("data.split_seed", {})
    if not seeds:
        return "not stored"
    if drawn := settings.get("data.splits", {}).keys() - {"None"}:
        folds = sorted(int(fold) for fold in settings.get("data.fold", {}) if fold != "None")
        which = f", fold{'s' * (len(folds) > 1)} {_stretches(folds)}" if folds else ""  # one fixed split has none
        return f"data.splits={listed(sorted(drawn))}{which}"
    if set(seeds) == {"None"}:
        return "every seed has a random one of its own"
    return f"all seeds hold out the same graphs (data.split_seed={told(seeds)})"


def seeds_told(cells: pd.DataFrame) -> str:
    """`0 to 4`; where methods have others `0 to 4 (sum), 0 and 1 (ordering at d = 10)`."""
    seeds = {
        (str(method), int(d)): _stretches(sorted({int(seed) for seed in part["seed"]}))
        for (method, d), part in cells.groupby(["method", "d"], sort=False)
    }
    return told(used((method, d, {"seed": text}) for (method, d), text in seeds.items()).get("seed", {"none": set()}))


def _stretches(seeds: list[int]) -> str:
    """0, 1, 2, 3, 7 → `0 to 3 and 7`."""
    stretches: list[list[int]] = []
    for seed in seeds:
        if stretches and seed == stretches[-1][-1] + 1:
            stretches[-1].append(seed)
        else:
            stretches.append([seed])
    words = [f"{part[0]} to {part[-1]}" if len(part) > 2 else listed(map(str, part)) for part in stretches]
    return listed(words)


def _parameters(cells: pd.DataFrame) -> str:
    if "cost/parameters" not in cells or cells["cost/parameters"].isna().all():
        return ""
    counts = cells["cost/parameters"].dropna()
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _stopped_early(sweep: StoredSweep, cells: pd.DataFrame) -> str:
    """How many cells ended before the last epoch of their settings."""
    ended = sweep.histories[sweep.histories["key"].isin(cells["key"])].groupby("key")["epoch"].max()
    if "params" not in cells or ended.empty:
        return ""
    planned = {
        key: int(params.get("train.epochs", 0)) for key, params in zip(cells["key"], cells["params"], strict=True)
    }
    early = [int(epoch) for key, epoch in ended.items() if epoch < planned[key]]
    if not early:
        return ""
    return f"ended early: {len(early)} of {len(cells)} cells, after {min(early)} to {max(early)} epochs"
