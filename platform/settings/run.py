"""The settings of one cell (dataset, method, d, seed): declared once, checked together, hashed into its key."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from permlab.datasets.folds import digest_of, read_folds
from permlab.platform.errors import SettingError
from permlab.platform.plugins.names import codes_among
from permlab.platform.settings.kinds import (
    BUILT_IN,
    SCAFFOLD,
    STRATIFIED,
    BackboneName,
    CallbackName,
    DatasetName,
    Folder,
    FolderName,
    LossName,
    MethodName,
    MetricName,
    ObjectiveName,
    OrNone,
    SplitsName,
    data_codes,
)
from permlab.platform.settings.readout_options import check_groups, options_of
from permlab.readouts.names import facts_of

RESULT_VERSION = 7  # raise it when a change of the code changes numbers
LARGEST = 2**63 - 1  # whole number, which everything that stores one takes
MOST_WEIGHTS = 100_000_000  # of a layer or all layers together: 1.6 GB with gradients and Adam's moments
Activation = Literal["relu", "tanh", "elu", "none"]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _a_number_is_not_a_truth(cls, value: Any, field: ValidationInfo) -> Any:
        """Python takes True for 1, and whole numbers of any length."""
        values = value if isinstance(value, list) else [value]
        if cls.model_fields[field.field_name or ""].annotation is not bool:
            if any(isinstance(number, bool) for number in values):
                raise ValueError("true and false do not fit here")
            if any(isinstance(number, int) and abs(number) > LARGEST for number in values):
                raise ValueError(f"a whole number is at most {LARGEST}")
        return value


class ModelSettings(Settings):
    backbone: BackboneName = Field(
        "gcn", description="Γ: gcn, gin, sage, gat, pna, gine (edge features), mlp (no edges), or a plug-in"
    )
    layers: int = Field(3, ge=1, le=1000, description="layers of Γ")
    hidden: int = Field(50, ge=1, le=10_000, description="units of Γ's inner layers")
    activation: Activation = Field("relu", description="σ between the layers of Γ and of ζ")
    last_activation: Activation = Field("none", description="σ after Γ's last layer (the paper: relu; d = 1 dies)")
    head_layers: int = Field(3, ge=1, le=1000, description="dense layers of ζ before the output")
    head_hidden: int = Field(150, ge=1, le=10_000, description="units of ζ's layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout in Γ and ζ")
    norm: Literal["none", "batch", "layer"] = Field(
        "none", description="normalisation after Γ's inner layers, before σ"
    )
    bias: bool = Field(True, description="biases of Γ's layers (the paper's formula has none)")
    feature_scaling: Literal["none", "standard", "minmax"] = Field(
        "none", description="node features to mean 0 and deviation 1, or to 0 … 1, over the training graphs' nodes"
    )
    init: Literal["default", "glorot", "he", "normal", "uniform", "kipf"] = Field(
        "default", description="initial weights; default: each layer's own (gcn: Glorot's, as PyG; ζ: torch's)"
    )


class TrainSettings(Settings):
    epochs: int = Field(300, ge=1, description="passes over the training set")
    batch_size: int = Field(128, ge=1, description="graphs per step")
    optimizer: Literal["adam", "adamw", "sgd", "momentum"] = Field(
        "adam", description="optimiser; momentum: sgd with momentum 0.9"
    )
    learning_rate: float = Field(1e-3, gt=0, description="step size")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty (adamw: decoupled)")
    scheduler: Literal["none", "cosine", "plateau"] = Field(
        "none", description="step size: cosine (to 0), plateau (a tenth when the validation, else training loss stalls)"
    )
    gradient_clip: Annotated[float | None, OrNone] = Field(
        None, gt=0, description="largest norm of the gradient; a longer one is scaled down to it"
    )
    precision: Literal[32, 64, "bf16-mixed", "16-mixed"] = Field(
        32, description="of training: 32 or 64 bits, or mixed (16-mixed: on a GPU only); evaluation has 64"
    )
    patience: Annotated[int | None, OrNone] = Field(
        None,
        ge=1,
        description="stop after so many evaluations without a better validation metric, and take the best weights",
    )
    monitor: Annotated[str | None, OrNone] = Field(
        None, description="that validation metric (default: the objective's headline: auc, acc, mae)"
    )
    pos_weight: Annotated[Annotated[float, Field(gt=0)] | Literal["balanced"] | None, OrNone] = Field(
        None, description="weight of positive labels in the loss; balanced: negatives / positives in training"
    )
    engine: Literal["auto", "plain", "fast"] = Field(
        "auto", description="who takes the training steps: the compiled engine (fast) or the definition (plain)"
    )
    eval_every: int = Field(5, ge=1, description="epochs between evaluations; the last epoch is always evaluated")
    permutations: Annotated[int | None, OrNone] = Field(
        None, ge=0, le=100, description="permuted copies of every training graph (default: 4 for augment, else 0)"
    )
    fresh_permutations: bool = Field(False, description="draw those copies anew each epoch")
    overfit_batches: int = Field(0, ge=0, description="Lightning: train on the same few batches again and again")
    fast_dev_run: bool = Field(False, description="Lightning: one batch of everything")
    checkpoint_every: int = Field(10, ge=1, description="epochs between checkpoints")
    profile: bool = Field(False, description="Lightning: print where the time went; trains a finished run again")
    callbacks: list[CallbackName] = Field([], description="Lightning callbacks by path, as file.py:MyCallback")


class DataSettings(Settings):
    holdout: Annotated[int | float | None, OrNone] = Field(
        None, ge=0, description="graphs held out: count or fraction (default: the data set's own)"
    )
    validation: int | float = Field(0, ge=0, description="graphs cut from the training part: count or fraction")
    split_seed: Annotated[int | None, OrNone] = Field(
        None, ge=0, description="hold out the same graphs in every seed (default: the seed)"
    )
    splits: Annotated[SplitsName | None, OrNone] = Field(
        None, description="FILE.json (published folds), stratified:K (K folds), scaffold (default: drawn by the seed)"
    )
    fold: Annotated[int | None, OrNone] = Field(None, ge=0, description="the fold that is held out, counted from 0")
    test: bool = Field(
        False, description="with a validation part: measure the holdout too, once, with the final weights"
    )
    train_only: bool = Field(False, description="measure the training graphs alone; the holdout is held out, not read")
    target: Annotated[str | None, OrNone] = Field(
        None, description="target of the data set, several joined by +, or * for all (default: the data set's own)"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        cut = {"holdout": self.holdout is not None, "validation": bool(self.validation)}
        cut["split_seed"] = self.split_seed is not None
        given = [name for name, is_given in cut.items() if is_given]
        taken = [name for name in given if name not in self._free]
        if self.splits and taken:
            raise ValueError(f"data.splits={self.splits} leaves no choice of data.{taken[0]}; leave that out")
        if self.fold is not None and not self.has_folds:
            raise ValueError("data.fold needs folds: set data.splits to a file of folds or to stratified:K")
        if self.train_only and self.test:
            raise ValueError("data.train_only measures no holdout: leave out data.test")
        if self.test and not self.validated:
            raise ValueError("data.test is for runs with a validation part; without one the holdout is measured anyway")
        if self.train_only and self.validated:
            raise ValueError("data.train_only goes without a validation part: leave one of them out")
        return self

    @property
    def _free(self) -> tuple[str, ...]:
        """The other settings of the split that `splits` leaves free."""
        if self.splits == SCAFFOLD:
            return ("holdout", "validation")
        return () if self.splits_file else ("validation", "split_seed")

    @property
    def splits_file(self) -> str | None:
        """The file of published folds, if there is one."""
        named = self.splits is not None and self.splits != SCAFFOLD and not self.splits.startswith(STRATIFIED)
        return self.splits if named else None

    @property
    def has_folds(self) -> bool:
        return self.splits not in (None, SCAFFOLD)

    @property
    def folds(self) -> int:
        """How many folds there are to choose from."""
        if self.splits_file:
            return len(read_folds(self.splits_file))
        return int((self.splits or "").removeprefix(STRATIFIED)) if self.has_folds else 0

    @property
    def validated(self) -> bool:
        """Whether there is a validation part."""
        return bool(self.validation or self.splits_file)


class ObjectiveSettings(Settings):
    kind: ObjectiveName = Field(
        "auto", description="auto (by the data set), binary, multiclass, multilabel, regression, or a plug-in"
    )
    loss: LossName = Field("auto", description="auto, bce, cross_entropy, mse, l1, huber, or a function by path")
    metrics: list[MetricName] = Field([], description="further metrics: classes of TorchMetrics, by name or by path")
    standardise: bool = Field(
        False, description="train on targets of mean 0 and deviation 1 (regression); metrics keep the data's units"
    )


class RunSettings(Settings):
    """One cell. What stands under `NOT_IN_KEY` changes its result by rounding at most."""

    dataset: DatasetName = Field("proteins_full", description="name of the data set, see: permlab data list")
    method: MethodName = Field("sum", description="name of the readout, see: permlab readouts; or a plug-in")
    d: int = Field(10, ge=1, le=10_000, description="width of the node embeddings")
    seed: int = Field(0, ge=0, description="of the split, the weights, the shuffling, the permutations")
    readout: dict[str, Any] = Field(
        default_factory=dict,
        description="options of the readout, as readout.kernels=200; nested under a readout's name they apply to it "
        "alone, e.g. readout.kernels.sigma=2 or readout.kernels.kernels=200",
    )
    backbone: dict[str, Any] = Field(default_factory=dict, description="options of Γ, as backbone.heads=4")
    model: ModelSettings = ModelSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    train: TrainSettings = TrainSettings()
    data: DataSettings = DataSettings()
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="where to run")
    threads: Annotated[int | None, OrNone] = Field(
        1, ge=1, le=1024, description="torch threads (none: as many as torch takes); the run's numerics record them"
    )
    runs: Folder = Field("runs", description="folder of checkpoints and results")
    track: bool = Field(True, description="record the run in MLflow")
    experiment: FolderName = Field("permlab", description="MLflow experiment")

    @model_validator(mode="before")
    @classmethod
    def _own_options(cls, tree: Any) -> Any:
        """Of the options under a readout's name only those of this readout count, over the common ones."""
        options = tree.get("readout") if isinstance(tree, dict) else None
        if not isinstance(options, dict):
            return tree
        method = str(tree.get("method", cls.model_fields["method"].default))
        check_groups(options, [method])
        return tree | {"readout": options_of(method, options)}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.train.fresh_permutations and not self.permutations:
            raise ValueError("train.fresh_permutations needs train.permutations above 0")
        if self.data.has_folds and self.data.fold is None:
            raise ValueError(f"data.splits={self.data.splits} has folds; choose one with data.fold, counted from 0")
        if self.train.patience and not self.data.validated:
            raise ValueError("train.patience needs a validation part that says when to stop: set data.validation")
        if self.train.engine == "fast" and self.plain_only:
            raise ValueError(f"train.engine=fast does not go with {self.plain_only}; choose auto or plain")
        self.check_weights()
        return self

    def check_weights(self, in_channels: int = 1, out_channels: int = 1) -> None:
        """Refuse a model that no machine holds: r → hidden → … → d, then m → head_hidden → … → 1."""
        model = self.model
        widths = [in_channels, *[model.hidden] * (model.layers - 1), self.d]
        widths_after = [out_channels, *[model.head_hidden] * model.head_layers, 1]
        weights = sum(a * b for layers in (widths, widths_after) for a, b in pairwise(layers))
        if weights > MOST_WEIGHTS:
            raise SettingError(
                f"the model would have {weights:,} weights; the limit is {MOST_WEIGHTS:,}: make d, model.hidden, "
                "model.head_hidden, model.layers or model.head_layers smaller"
            )

    @property
    def plain_only(self) -> str:
        """The setting that only the plain path serves; empty if there is none."""
        train, model = self.train, self.model
        asked = {
            f"train.precision={train.precision}": train.precision != 32,
            f"train.gradient_clip={train.gradient_clip}": train.gradient_clip is not None,
            f"train.pos_weight={train.pos_weight}": train.pos_weight is not None,
            f"train.scheduler={train.scheduler}": train.scheduler != "none",
            "train.fast_dev_run": train.fast_dev_run,
            f"train.overfit_batches={train.overfit_batches}": train.overfit_batches > 0,
            "train.profile": train.profile,
            f"train.optimizer={train.optimizer}": train.optimizer == "momentum",
            f"model.norm={model.norm}": model.norm != "none",
            "model.bias=false": not model.bias,
            f"model.feature_scaling={model.feature_scaling}": model.feature_scaling != "none",
        }
        return next((setting for setting, given in asked.items() if given), "")

    @property
    def permutations(self) -> int:
        """Permuted copies of every training graph."""
        default = facts_of(self.method).copies
        return default if self.train.permutations is None else self.train.permutations

    @property
    def splits(self) -> tuple[str, ...]:
        """What is measured during training. While a validation part is cut off, the holdout is not looked at."""
        if self.data.train_only:
            return ("train",)
        return ("train", "validation") if self.data.validated else ("train", "holdout", "holdout_perm")

    @property
    def splits_at_end(self) -> tuple[str, ...]:
        """What is measured with the final weights."""
        return (*self.splits, "holdout", "holdout_perm") if self.data.test else self.splits

    @property
    def temporary(self) -> bool:
        """A run of Lightning's debugging switches: nothing of it is kept."""
        return self.train.fast_dev_run or bool(self.train.overfit_batches)

    @property
    def held_out(self) -> str:
        """What the holdout depends on, if it is not drawn at random: all that a tuning and its cells must share."""
        if self.data.splits is None:
            return ""
        data = key_fields(self)["data"]
        return json.dumps({name: data.get(name) for name in ("splits", "fold", "holdout", "validation", "split_seed")})

    @property
    def plugs(self) -> list[str]:
        """Every name that may be a plug-in's."""
        one = [self.method, self.model.backbone, self.objective.kind, self.objective.loss]
        return [*one, *self.objective.metrics, *self.train.callbacks]

    @property
    def customised(self) -> bool:
        """Whether anything of the model is not built in, or has options that only its constructor can check."""
        plain = {"gcn"}.union(*(BUILT_IN[group] for group in ("readouts", "objectives", "losses")))
        return bool(self.readout or self.backbone or self.data.target) or any(name not in plain for name in self.plugs)

    @property
    def splits_file(self) -> str | None:
        """The file of published folds that this run names."""
        return self.data.splits_file

    @property
    def codes(self) -> list[str]:
        """The code that this run names by path."""
        return [*codes_among(self.plugs), *data_codes([self.dataset])]

    @property
    def name(self) -> str:
        fold = "" if self.data.fold is None else f"-f{self.data.fold}"
        return f"{self.method}-d{self.d}{fold}-s{self.seed}"


NOT_IN_KEY = {
    "dataset": True,  # its digest is in the key, however it is named
    "accelerator": True,
    "threads": True,
    "runs": True,
    "track": True,
    "experiment": True,
    "train": {"checkpoint_every", "profile", "engine"},
}


LATER = (
    *("backbone", "objective", "model.backbone", "train.callbacks", "train.monitor", "train.pos_weight"),
    *("model.norm", "model.bias", "model.feature_scaling", "model.init"),
    *("data.target", "data.splits", "data.fold", "data.test", "data.train_only"),
)


def key_fields(settings: RunSettings) -> dict[str, Any]:
    """Everything that can change the result by more than rounding, besides the data.

    Code and folds stand by the digest of their files, not by their path. Settings that came later are left out while
    they have their defaults, so that older keys stay.
    """
    from permlab.platform.plugins.digests import with_digests

    defaults = RunSettings().model_dump(mode="json")
    fields: dict[str, Any] = with_digests(settings).model_dump(mode="json", exclude=NOT_IN_KEY)  # type: ignore[arg-type]
    for name in LATER:
        group, _, field = name.rpartition(".")
        inside, default = (fields[group], defaults[group]) if group else (fields, defaults)
        if inside[field] == default[field]:
            del inside[field]
    if settings.data.splits_file:
        fields["data"]["splits"] = digest_of(settings.data.splits_file)
    return fields


def cell_key(settings: RunSettings, dataset_digest: str) -> str:
    """Equal key and equal numerics, equal bits."""
    fields = key_fields(settings)
    fields["train"]["permutations"] = settings.permutations
    if settings.data.split_seed is None:
        del fields["data"]["split_seed"]
    text = json.dumps([RESULT_VERSION, dataset_digest, fields], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def cell_folder(settings: RunSettings, key: str) -> Path:
    """Where a cell keeps its checkpoint and what it leaves."""
    return Path(settings.runs) / "cells" / key
