"""What can be set in a benchmark, as key=value."""

import os
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from permlab.platform.bench.sizes import SIZES
from permlab.platform.config import DataSettings, RunSettings, Settings, TrainSettings
from permlab.readouts.names import PAPER_METHODS

ALONE = ("sort_columns", "ordering", "sort", "sum", "kernels", "set2set")
WIDTHS = [1, 10, 50, 100]
ENDLESS = 10**6  # epochs: the stopwatch ends the run


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _choose(values: list[str], choices: tuple[str, ...]) -> list[str]:
    for value in values:
        if value not in choices:
            raise ValueError(f"unknown {value!r}: choose from {', '.join(choices)}")
    return values


Names = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_as_list), Field(min_length=1)]


class BenchSettings(Settings):
    runs: str = Field("runs", description="folder of results; this one goes to bench/ in it")


class Timed(BenchSettings):
    """What is measured from two sides, in turn."""

    repeats: int = Field(3, ge=1, description="times that both sides are measured, in turn")
    threads: int = Field(1, ge=1, description="cores, the same for both sides")

    @field_validator("threads")
    @classmethod
    def _offered(cls, threads: int) -> int:
        if threads > (cores := len(os.sched_getaffinity(0))):
            raise ValueError(f"this machine offers {cores} cores")
        return threads


class TrainBench(Timed):
    """Training: every data set × method × d."""

    dataset: Names = Field(["proteins_full", "qm9,limit=20000"], description="data sets")
    method: Names = Field(list(PAPER_METHODS), description="readouts")
    d: Counts = Field(WIDTHS, description="widths of the node embeddings")
    steps: int = Field(32, ge=1, description="training steps a measurement, about: whole epochs are timed")
    batch_size: int = Field(128, ge=1, description="graphs a step")
    seed: int = Field(0, ge=0, description="of the split and the weights")
    track: bool = Field(False, description="record to MLflow meanwhile, as `permlab train` does: give it 1,000 steps")

    @field_validator("method")
    @classmethod
    def _with_a_reference(cls, method: list[str]) -> list[str]:
        return _choose(method, PAPER_METHODS)

    @field_validator("dataset")
    @classmethod
    def _known(cls, dataset: list[str]) -> list[str]:
        return [RunSettings(dataset=name).dataset for name in dataset]

    def cell(self, dataset: str, method: str, d: int, graphs: int, held_out: int, runs: str) -> RunSettings:
        """A run on a data set of so many graphs; its epoch is cut down to about `steps` steps."""
        copies = 5 if method == "augment" else 1
        wanted = -(-self.steps * self.batch_size // copies)
        return RunSettings(
            dataset=dataset,
            method=method,
            d=d,
            seed=self.seed,
            threads=self.threads,
            data=DataSettings(holdout=max(held_out, graphs - wanted)),
            train=TrainSettings(
                epochs=ENDLESS, eval_every=ENDLESS, checkpoint_every=ENDLESS, batch_size=self.batch_size
            ),
            accelerator="cpu",
            track=self.track,
            experiment="bench",
            runs=runs,
        )


class SortBench(Timed):
    """Readouts alone: every kind of sizes × readout × d."""

    sizes: Names = Field(list(SIZES), description="how large the graphs are")
    method: Names = Field(list(ALONE), description="the segmented sort itself, and readouts")
    d: Counts = Field(WIDTHS, description="widths of the node embeddings")
    growth: bool = Field(True, description="also how the time grows with B, N, d and the largest graph")

    @field_validator("sizes")
    @classmethod
    def _known_sizes(cls, sizes: list[str]) -> list[str]:
        return _choose(sizes, SIZES)

    @field_validator("method")
    @classmethod
    def _with_a_reference(cls, method: list[str]) -> list[str]:
        return _choose(method, ALONE)


class DataBench(Timed):
    """Data sets: building, opening, batches, memory."""

    dataset: Names = Field(["proteins_full", "qm9", "synthetic,graphs=1000000"], description="data sets")
    batch_size: int = Field(128, ge=1, description="graphs a batch")
    workers: Counts = Field([1, 2, 4], description="processes whose memory is measured")

    @field_validator("dataset")
    @classmethod
    def _known(cls, dataset: list[str]) -> list[str]:
        return [RunSettings(dataset=name).dataset for name in dataset]


class SweepBench(BenchSettings):
    """Sweeps: what the machinery costs beside the training."""

    cells: int = Field(2000, ge=0, description="cells that do nothing; 0 leaves them out")
    dataset: str = Field("proteins_full", description="data set of the real grid, twelve cells")
    epochs: int = Field(20, ge=0, description="epochs of its cells; 0 leaves it out")

    @field_validator("dataset")
    @classmethod
    def _known(cls, dataset: str) -> str:
        return RunSettings(dataset=dataset).dataset


BENCHES: dict[str, type[BenchSettings]] = {
    "train": TrainBench,
    "sort": SortBench,
    "data": DataBench,
    "sweep": SweepBench,
}
