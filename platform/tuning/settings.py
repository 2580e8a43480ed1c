"""The `tune:` section: what is searched, how, and for how long."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from permlab.platform.files.secrets import unmasked
from permlab.platform.settings.run import Settings
from permlab.platform.tuning.space import parse_space

LEAST_SEEDS = 5  # for Wilcoxon's test: four signs that agree have p = 1/16, below Optuna's 0.1, and one seed is saved


class TuneSettings(Settings):
    """One study per (dataset, method, d), each with the same budget."""

    space: dict[str, Any] = Field(
        default_factory=dict,
        description="what is searched, as train.learning_rate: {low: 1e-4, high: 1e-2, log: true} or "
        "{choices: [1, 2]}; under a readout's name: for it alone (default: the readout's own space)",
    )
    metric: str | None = Field(None, description="validation metric (default: the objective's headline: auc, acc, mae)")
    trials: int | None = Field(
        None, ge=1, le=1_000_000, description="budget per study: finished trials (20 if no budget is given)"
    )
    epochs: int | None = Field(None, ge=1, description="budget per study: epochs of all its trials")
    seconds: float | None = Field(None, gt=0, description="budget per study: seconds of all its trials")
    sampler: Literal["tpe", "gp", "random"] = Field(
        "tpe", description="how settings are proposed; gp: a Gaussian process, for few trials"
    )
    pruner: Literal["median", "hyperband", "wilcoxon", "none"] = Field(
        "median",
        description="how hopeless trials are ended early: by the epochs of their first seed (median, hyperband), or "
        "seed by seed (wilcoxon)",
    )
    seed: int = Field(0, ge=0, description="seed of the sampler and the trials")
    seeds: int = Field(
        2, ge=1, le=1000, description="seeds per trial, each with its own validation part; their mean counts"
    )
    validation: int | float = Field(0.2, gt=0, description="graphs cut from training: count or fraction")
    parallel: int | None = Field(
        None, ge=1, description="trials per study at a time (default: as many as fit; 1 is reproducible)"
    )
    storage: str | None = Field(
        None,
        description="URL of the studies' database: postgresql://USER@HOST/DATABASE, its password in PGPASSWORD or "
        "~/.pgpass (default: SQLite in the runs folder)",
    )
    baseline: bool = Field(True, description="after tuning, a sweep also runs the default settings, to compare")

    @field_validator("space")
    @classmethod
    def _readable_space(cls, space: dict[str, Any]) -> dict[str, Any]:
        parse_space(space)
        return space

    @field_validator("storage")
    @classmethod
    def _known_storage(cls, storage: str | None) -> str | None:
        if storage is None:
            return None
        if not storage.startswith(("postgresql", "sqlite:///")):
            raise ValueError("choose postgresql://USER@HOST/DATABASE or sqlite:///FILE")
        return unmasked(storage)

    @model_validator(mode="after")
    def _enough_seeds(self) -> Self:
        if self.pruner == "wilcoxon" and self.seeds < LEAST_SEEDS:
            raise ValueError(
                f"pruner=wilcoxon tests trials seed by seed, and is never sure before seed {LEAST_SEEDS - 1}: set "
                f"tune.seeds to {LEAST_SEEDS} or more, or choose median or hyperband"
            )
        return self

    @model_validator(mode="after")
    def _a_budget(self) -> Self:
        if self.trials is None and self.epochs is None and self.seconds is None:
            object.__setattr__(self, "trials", 20)
        return self
