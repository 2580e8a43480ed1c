"""From the settings of a run and the facts of its data to a model and an objective."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from permlab.datasets.manifest import Manifest
from permlab.datasets.randomness import derive_seed
from permlab.datasets.store import GraphStore
from permlab.platform.errors import ConfigError
from permlab.platform.plugins.names import parse
from permlab.platform.plugins.resolve import backbone_named, metric_named, readout_named, resolved
from permlab.platform.run.split import positive_weights, split_of
from permlab.platform.settings.run import RunSettings
from permlab.readouts.base import sizes_of
from permlab.readouts.catalogue import build as build_readout
from permlab.readouts.construct import made_by_name
from permlab.tasks.backbones import Shape, build_backbone
from permlab.tasks.initial_weights import draw_weights
from permlab.tasks.losses import LOSSES
from permlab.tasks.metrics import BY_KIND
from permlab.tasks.model import GraphModel, Head, Standardise
from permlab.tasks.names import BACKBONE_NAMES
from permlab.tasks.objectives import Objective, ObjectiveError, choose_objective
from permlab.tasks.scaling import ScaleFeatures

_WEIGHTS, _READOUT = 1, 2  # entropy: one number per use of the seed


@dataclass(frozen=True)
class DataFacts:
    """What a model must know of its data; stored with the run, so that the model can be built again without it."""

    task: str
    targets: tuple[str, ...]
    classes: int
    in_channels: int
    edge_channels: int
    max_nodes: int
    feature_names: list[str]
    degrees: tuple[int, ...] = ()  # how many nodes have 0, 1, 2, … neighbours, if Γ may ask for it
    pos_weight: tuple[float, ...] = ()  # of every label in the loss, if `train.pos_weight` is set

    @classmethod
    def of(cls, manifest: Manifest, targets: tuple[str, ...]) -> "DataFacts":
        features, edges = manifest.feature_names, len(manifest.edge_feature_names)
        return cls(manifest.task, targets, manifest.classes, len(features), edges, manifest.max_nodes, features)

    @classmethod
    def of_store(cls, store: GraphStore, settings: RunSettings) -> "DataFacts":
        facts = cls.of(store.manifest, store.targets)
        backbone = parse(settings.model.backbone).head
        if backbone == "pna" or backbone not in BACKBONE_NAMES:  # of the built-in ones only pna asks for them
            degrees = np.bincount(np.diff(store.a_ptr) - 1)  # Â has a loop at every node
            facts = replace(facts, degrees=tuple(degrees.tolist()))
        if isinstance(settings.train.pos_weight, float):
            facts = replace(facts, pos_weight=(settings.train.pos_weight,) * len(store.targets))
        elif settings.train.pos_weight:
            facts = replace(facts, pos_weight=positive_weights(store.y[split_of(store, settings).train]))
        return facts

    @classmethod
    def stored(cls, document: dict[str, Any]) -> "DataFacts":
        """As an older version wrote it, too: one target, two classes, no edge features."""
        facts: dict[str, Any] = {"targets": ("y",), "classes": 2, "edge_channels": 0} | document
        lists = {name: tuple(facts.get(name, ())) for name in ("targets", "degrees", "pos_weight")}
        return cls(**facts | lists)

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self)


def build_objective(settings: RunSettings, facts: DataFacts, std: Tensor | None = None) -> Objective:
    """The loss and the metrics; `std` [T] is that of standardised targets."""
    chosen = settings.objective
    kind, loss = parse(chosen.kind), parse(chosen.loss)
    loss_function: Any = loss.head
    if loss.head != "auto" and loss.head not in LOSSES:
        loss_function = made_by_name(loss.head, resolved(loss.head, "losses", nn), loss.options, ObjectiveError)
    elif loss.options:
        raise ConfigError(f"objective.loss: {loss.head} has no option {min(loss.options)!r}; it takes none")
    named = [metric_named(text) for text in chosen.metrics]
    metrics = dict(named)
    if len(metrics) < len(named):
        raise ConfigError("objective.metrics names a metric twice; give a subclass of its own name for other options")
    if kind.head == "auto" or kind.head in BY_KIND:
        weights = torch.tensor(facts.pos_weight) if facts.pos_weight else None
        return choose_objective(
            facts.task, facts.targets, facts.classes, kind.head, loss_function, metrics, std, weights
        )
    if settings.train.pos_weight:
        raise ConfigError(f"train.pos_weight goes with binary and multilabel, not with objective.kind={chosen.kind}")
    usual = {"targets": facts.targets, "names": facts.targets, "classes": facts.classes, "std": std}
    usual |= {"loss": loss_function} if loss.head != "auto" else {}
    objective = made_by_name(kind.head, resolved(kind.head, "objectives"), kind.options, ObjectiveError, usual=usual)
    if not isinstance(objective, Objective):
        raise ConfigError(
            f"objective.kind={chosen.kind} is no Objective; derive it from permlab.tasks.objectives.Objective"
        )
    return objective


def build_model(
    settings: RunSettings,
    facts: DataFacts,
    outputs: int = 1,
    scale: Standardise | None = None,
    features: ScaleFeatures | None = None,
) -> GraphModel:
    """Γ, φ, ζ with weights that depend only on the seed, not on the global random state."""
    model = settings.model
    backbone, its_options = backbone_named(model.backbone)
    readout_like, options = readout_named(settings.method)
    if reserved := {"d", "max_nodes", "seed"} & set(options | settings.readout):
        raise ConfigError(
            f"readout.{min(reserved)} is set by the run itself; choose another option of {settings.method}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(settings.seed, _WEIGHTS))
        shape = Shape(
            facts.in_channels,
            facts.edge_channels,
            settings.d,
            model.hidden,
            model.layers,
            model.activation,
            model.last_activation,
            model.dropout,
            model.norm,
            model.bias,
            facts.degrees,
        )
        gamma = build_backbone(backbone, shape, **its_options | settings.backbone)
        seed = derive_seed(settings.seed, _READOUT) % 2**31
        readout = build_readout(readout_like, settings.d, facts.max_nodes, seed=seed, **options | settings.readout)
        settings.check_weights(facts.in_channels, sizes_of(readout)[1])
        head = Head(readout, model.head_hidden, model.head_layers, model.activation, model.dropout, outputs)
        if model.init != "default":
            draw_weights(model.init, gamma, head)
    dtype = torch.float64 if settings.train.precision == 64 else torch.float32  # keys come in double
    return GraphModel(gamma, readout, head, scale, features).to(dtype)
