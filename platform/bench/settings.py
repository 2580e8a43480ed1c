"""What can be set in a benchmark, as key=value."""

import math
import os
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from permlab.datasets.manifest import Manifest
from permlab.platform.bench.sizes import SIZES
from permlab.platform.bench.variants import VARIANTS, Variant
from permlab.platform.plugins.names import codes_among, parse
from permlab.platform.settings.kinds import Folder, MethodName
from permlab.platform.settings.run import DataSettings, ModelSettings, RunSettings, Settings, TrainSettings
from permlab.platform.settings.words import check
from permlab.readouts.names import NAMES, PAPER_METHODS

ALONE = ("sort_columns", "ordering", "sort", "sum", "kernels", "set2set")
WIDTHS = [1, 10, 50, 100]
COUNTED, FEWER = ("gamma", "rank_one_filters", "max_filters", "fsw", "deepsets"), "out_channels=256"
ENDLESS = 10**6  # epochs: the stopwatch ends the run


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _choose(values: list[str], choices: Iterable[str]) -> list[str]:
    for value in values:
        if value not in choices:
            raise ValueError(f"unknown {value!r}: choose from {', '.join(choices)}")
    return values


Names = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_as_list), Field(min_length=1)]
Sizes = Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_as_list)]
FromThree = Annotated[list[Annotated[int, Field(ge=3)]], BeforeValidator(_as_list), Field(min_length=1)]


Methods = Annotated[list[MethodName], BeforeValidator(_as_list), Field(min_length=1)]


class BenchSettings(Settings):
    runs: Folder = Field("runs", description="folder of results; a benchmark writes to its bench/")


class Timed(BenchSettings):
    """A benchmark that measures several sides in turn."""

    repeats: int = Field(3, ge=1, description="measurements of every side, taken in turn")
    threads: int = Field(1, ge=1, description="cores, the same for every side")

    @field_validator("threads")
    @classmethod
    def _within_cores(cls, threads: int) -> int:
        if threads > (cores := len(os.sched_getaffinity(0))):
            raise ValueError(f"this machine offers {cores} cores")
        return threads


class CellsBench(Timed):
    """Runs of every data set × method × d, without evaluation and checkpoints."""

    dataset: Names = Field(["proteins_full", "qm9,limit=20000"], description="data sets")
    method: Methods = Field(list(PAPER_METHODS), description="readouts: the paper's, and plug-ins")
    d: Counts = Field(WIDTHS, description="widths of the node embeddings")
    model: ModelSettings = ModelSettings()
    steps: int = Field(32, ge=1, description="training steps per measurement, rounded to whole epochs")
    batch_size: int = Field(128, ge=1, description="graphs per step")
    seed: int = Field(0, ge=0, description="of the split and the weights")

    @field_validator("method")
    @classmethod
    def _with_a_reference(cls, method: list[str]) -> list[str]:
        """The plain side has the paper's readouts itself, and takes a plug-in as it is."""
        return [name if parse(name).head not in NAMES else _choose([name], PAPER_METHODS)[0] for name in method]

    @field_validator("dataset")
    @classmethod
    def _known(cls, dataset: list[str]) -> list[str]:
        return [RunSettings(dataset=name).dataset for name in dataset]

    @property
    def codes(self) -> list[str]:
        return codes_among(self.method)

    def cell(self, dataset: str, method: str, d: int, manifest: Manifest, runs: str) -> dict[str, Any]:
        """The settings of one cell's run, as JSON; an epoch is cut to about `steps` steps."""
        copies = 5 if method == "augment" else 1
        train_graphs = -(-self.steps * self.batch_size // copies)
        holdout = manifest.holdout
        held_out = holdout if isinstance(holdout, int) else round(holdout * manifest.graphs)
        train = TrainSettings(epochs=ENDLESS, eval_every=ENDLESS, checkpoint_every=ENDLESS, batch_size=self.batch_size)
        return RunSettings(
            dataset=dataset,
            method=method,
            d=d,
            seed=self.seed,
            model=self.model,
            train=train,
            data=DataSettings(holdout=max(held_out, manifest.graphs - train_graphs)),
            accelerator="cpu",
            threads=self.threads,
            runs=runs,
            track=False,
            experiment="bench",
        ).model_dump(mode="json")


class TrainBench(CellsBench):
    """Training compared with plain PyG + Lightning."""

    engine: Literal["auto", "plain", "fast"] = Field("auto", description="train.engine of our side")
    track: bool = Field(False, description="also record to MLflow, as `permlab train` does; use 1,000 steps then")

    def cell(self, dataset: str, method: str, d: int, manifest: Manifest, runs: str) -> dict[str, Any]:
        cell = super().cell(dataset, method, d, manifest, runs)
        return cell | {"train": cell["train"] | {"engine": self.engine}, "track": self.track}


class OfftrackBench(TrainBench):
    """Training with settings other than the paper's."""

    method: Names = Field(["sum", "ordering", "kernels"], description="readouts")
    d: Counts = Field([10, 32], description="widths of the node embeddings")
    variant: Names = Field(list(VARIANTS), description="what differs from the paper")

    @field_validator("variant")
    @classmethod
    def _known_variants(cls, variant: list[str]) -> list[str]:
        return _choose(variant, VARIANTS)

    def changed(self, variant: Variant) -> "TrainBench":
        """What `permlab bench train` measures for one variant."""
        common = self.model_dump(exclude={"variant"})
        threads = variant.threads or self.threads
        return check(TrainBench, common | {"model": common["model"] | variant.model, "threads": threads})


class EngineBench(CellsBench):
    """The fast engine: what each of its parts gains."""

    parts: Names | None = Field(None, description="parts to leave out, one at a time (default: all)")


class SortBench(Timed):
    """Readouts alone: every kind of sizes × readout × d."""

    sizes: Names = Field(list(SIZES), description="how large the graphs are")
    method: Names = Field(list(ALONE), description="the segmented sort itself, and readouts")
    d: Counts = Field(WIDTHS, description="widths of the node embeddings")
    growth: bool = Field(True, description="also measure how the time grows with B, N, d and the largest graph")

    @field_validator("sizes")
    @classmethod
    def _known_sizes(cls, sizes: list[str]) -> list[str]:
        return _choose(sizes, SIZES)

    @field_validator("method")
    @classmethod
    def _with_a_reference(cls, method: list[str]) -> list[str]:
        return _choose(method, ALONE)


class MapsBench(Timed):
    """All readouts, alone, on graphs as large as those of PROTEINS_full."""

    method: Methods = Field(
        [f"{name},{FEWER}" if name in COUNTED else name for name in NAMES],
        description=f"readouts (default: all, those whose m grows with the graphs with {FEWER})",
    )
    d: Counts = Field([10, 50], description="widths of the node embeddings")

    @property
    def codes(self) -> list[str]:
        return codes_among(self.method)


class DataBench(Timed):
    """Data sets: building, opening, batches, memory."""

    dataset: Names = Field(["proteins_full", "qm9", "synthetic,graphs=1000000"], description="data sets")
    batch_size: int = Field(128, ge=1, description="graphs per batch")
    workers: Counts = Field([1, 2, 4], description="processes whose memory is measured")

    @field_validator("dataset")
    @classmethod
    def _known(cls, dataset: list[str]) -> list[str]:
        return [RunSettings(dataset=name).dataset for name in dataset]


class SweepBench(BenchSettings):
    """Sweeps: what the machinery costs on top of the training."""

    cells: Sizes = Field([2000], description="sizes of sweeps whose cells do nothing; [] leaves them out")
    dataset: str = Field("proteins_full", description="data set of the real grid of twelve cells")
    epochs: int = Field(20, ge=0, description="epochs of that grid's cells; 0 leaves it out")

    @field_validator("dataset")
    @classmethod
    def _known(cls, dataset: str) -> str:
        return RunSettings(dataset=dataset).dataset


class LevelBench(BenchSettings):
    """The report's tests: false alarms on simulated data sets where all methods are equal."""

    data_sets: int = Field(1000, ge=1, description="simulated data sets")
    methods: FromThree = Field([3, 7], description="number of methods compared")
    seeds: FromThree = Field([5, 10], description="seeds of a sweep")
    d: Counts = Field([1, 4, 10], description="widths of the node embeddings")
    blocks: FromThree = Field([3, 5, 10], description="data sets of a sweep, for Friedman's test")
    seed: int = Field(0, ge=0, description="of everything random")

    @field_validator("blocks")
    @classmethod
    def _enough_data_sets(cls, blocks: list[int], info: ValidationInfo) -> list[int]:
        if max(blocks) > info.data.get("data_sets", math.inf):
            raise ValueError(f"only {info.data['data_sets']} data sets are simulated; raise data_sets")
        return blocks


BENCHES: dict[str, type[BenchSettings]] = {
    "train": TrainBench,
    "offtrack": OfftrackBench,
    "engine": EngineBench,
    "sort": SortBench,
    "maps": MapsBench,
    "data": DataBench,
    "sweep": SweepBench,
    "level": LevelBench,
}
