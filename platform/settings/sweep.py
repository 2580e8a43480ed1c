"""A sweep: a run's settings in which dataset, method, d, data.fold and seed may be lists."""

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from permlab.platform.settings.kinds import DatasetName, Folder, FolderName, MethodName, OrNone
from permlab.platform.settings.protocols import PROTOCOLS, with_protocol
from permlab.platform.settings.readout_options import check_groups, options_of
from permlab.platform.settings.run import (
    DataSettings,
    ModelSettings,
    ObjectiveSettings,
    RunSettings,
    Settings,
    TrainSettings,
)
from permlab.platform.tuning.choice import Choice, Kind, kind_of_cell
from permlab.platform.tuning.settings import TuneSettings


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Methods = Annotated[list[MethodName], BeforeValidator(_as_list)]
Numbers = Annotated[list[int], BeforeValidator(_as_list)]


def _as_list_or_none(value: Any) -> Any:
    return None if value is None else _as_list(value)


def _distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


class ResourceSettings(Settings):
    cpus: float = Field(
        1, gt=0, le=1024, description="CPUs per cell; torch gets as many threads, which the numerics record"
    )
    gpus: float = Field(0, ge=0, le=1024, description="GPUs per cell; 1/k lets k cells share one")

    @field_validator("gpus")
    @classmethod
    def _whole_or_share(cls, gpus: float) -> float:
        if gpus > 1 and gpus != int(gpus):
            raise ValueError("a cell takes a share of one GPU (0.5, 0.25, …) or a whole number of them")
        return gpus


class FoldsSettings(DataSettings):
    """A sweep's `data`: folds are an axis of the grid."""

    fold: Annotated[list[Annotated[int, Field(ge=0)]] | None, OrNone, BeforeValidator(_as_list_or_none)] = Field(  # type: ignore[assignment]
        None, description="the folds that are held out, counted from 0 (default: all)"
    )


class SweepSettings(Settings):
    """Every combination of dataset × method × d × fold × seed is a cell."""

    name: FolderName = Field("sweep", description="name, and MLflow experiment")
    dataset: Annotated[list[DatasetName], BeforeValidator(_as_list)] = Field(["proteins_full"], description="data sets")
    method: Methods = Field(["sum"], description="readouts")
    d: Numbers = Field([10], description="widths of the node embeddings")
    seed: Numbers = Field([0], description="seeds")
    readout: dict[str, Any] = Field(
        default_factory=dict, description="options of the readout; nested under a readout's name they apply to it alone"
    )
    backbone: dict[str, Any] = Field(default_factory=dict, description="options of Γ")
    model: ModelSettings = ModelSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    train: TrainSettings = TrainSettings()
    data: FoldsSettings = FoldsSettings()
    protocol: Literal["paper", "errica", "ogb"] = Field(
        "paper", description="how results are made: errica (nested cross-validation), ogb (one fixed split), paper"
    )
    resources: ResourceSettings = ResourceSettings()
    max_failed: int = Field(10, ge=0, description="failed cells after which the sweep gives up")
    retries: int = Field(
        20, ge=0, le=1_000_000, description="times a cell is started again when its worker or node dies"
    )
    accelerator: str = Field("auto", description="where cells run: auto, cpu, cuda, mps")
    runs: Folder = Field("runs", description="folder of checkpoints and results")
    track: bool = Field(True, description="record the sweep in MLflow")
    tune: TuneSettings | None = Field(None, description="tune every (dataset, method, d) first, see: permlab tune")
    tuned: Annotated[list[str], BeforeValidator(_as_list)] = Field([], description="tunings whose best settings to use")

    @model_validator(mode="before")
    @classmethod
    def _by_protocol(cls, tree: Any) -> Any:
        return with_protocol(tree) if isinstance(tree, dict) else tree

    @model_validator(mode="after")
    def _not_empty(self) -> "SweepSettings":
        for axis in ("dataset", "method", "d", "seed"):
            if not getattr(self, axis):
                raise ValueError(f"the grid is empty: {axis} has no values")
        check_groups(self.readout, self.method)
        if self.data.fold == []:
            raise ValueError("the grid is empty: data.fold has no values")
        if self.protocol != "paper" and (reason := PROTOCOLS[self.protocol].misfit(self)):
            raise ValueError(f"protocol={self.protocol} {reason}")
        if self.tune and self.tuned:
            raise ValueError("give tuned= (settings that were tuned before) or tune (tune them now), not both")
        self.cells()  # every cell is checked before any is run
        return self

    @property
    def codes(self) -> list[str]:
        """The code that this sweep names by path, each once."""
        cells = self.model_copy(update={"d": self.d[:1], "seed": self.seed[:1]}).cells()
        return list(dict.fromkeys(head for cell in cells for head in cell.codes))

    def cells(self, choices: Mapping[Kind, Choice] | None = None) -> list[RunSettings]:
        """The cells, in the order dataset, method, d, fold, seed, with the tuned settings if there are any.

        Repeated values count once.
        """
        axes = [_distinct(axis) for axis in (self.dataset, self.method, self.d, self._folds, self.seed)]
        data = self.data.model_dump()
        cells = [
            RunSettings(
                dataset=dataset,
                method=method,
                d=d,
                seed=seed,
                readout=options_of(method, self.readout),
                backbone=self.backbone,
                model=self.model,
                objective=self.objective,
                train=self.train,
                data=DataSettings.model_validate(data | {"fold": fold}),
                accelerator=self.accelerator,
                threads=max(1, int(self.resources.cpus)),
                runs=self.runs,
                track=self.track,
                experiment=self.name,
            )
            for dataset, method, d, fold, seed in product(*axes)
        ]
        return [choices[kind_of_cell(cell)].apply(cell) for cell in cells] if choices else cells

    @property
    def _folds(self) -> list[int | None]:
        """One None if there are no folds."""
        if self.data.fold is None and self.data.has_folds:
            return list(range(self.data.folds))
        return [None] if self.data.fold is None else list(self.data.fold)


class TuningSettings(SweepSettings):
    """A sweep's settings; `tune` is always there."""

    tune: TuneSettings = Field(TuneSettings(), description="the search")
