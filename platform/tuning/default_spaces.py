"""The spaces that are searched by default: a few fields that matter, around the default settings."""

from typing import Any

from permlab.platform.plugins.code import LOADED
from permlab.platform.plugins.names import parse

COMMON: dict[str, Any] = {
    "train.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "train.weight_decay": {"choices": [0.0, 1e-5, 1e-4, 1e-3, 1e-2]},
    "train.batch_size": {"choices": [64, 128, 256]},
    "model.dropout": {"low": 0.0, "high": 0.5},
}
OWN: dict[str, dict[str, Any]] = {
    "kernels": {
        "readout.kernels": {"low": 25, "high": 400, "log": True},
        "readout.sigma": {"low": 0.25, "high": 4.0, "log": True},
    },
    "set2set": {"readout.steps": {"low": 1, "high": 6}},
}


def default_space(method: str) -> dict[str, Any]:
    """A plug-in brings the space of its options as a class attribute: space = {"width": {"low": 1, "high": 9}}."""
    head = parse(method).head
    own = getattr(LOADED[head].value, "space", None) if head in LOADED else None
    return COMMON | OWN.get(head, {}) | {f"readout.{name}": spec for name, spec in (own or {}).items()}
