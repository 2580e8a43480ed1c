"""What is searched where the settings name no space: a few fields that matter, around the default settings."""

from typing import Any

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
    return COMMON | OWN.get(method, {})
