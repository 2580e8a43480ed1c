"""The settings that a tuning chose: `tuned.yaml` in its folder. A sweep reads it without Optuna or a database."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import Field

from permlab.datasets.manifest import Manifest
from permlab.datasets.splits import split
from permlab.platform.errors import ConfigError
from permlab.platform.files.secrets import masked
from permlab.platform.settings.kinds import folder_name
from permlab.platform.settings.run import RunSettings, Settings, key_fields
from permlab.platform.settings.yaml_text import load_yaml
from permlab.platform.tuning.space import with_values

FILE, STUDIES = "tuned.yaml", "studies.json"  # the chosen settings, and all trials
Kind = tuple[str, str, int, int | None]  # dataset, method, d, fold


def kind_of_cell(cell: RunSettings) -> Kind:
    """What is tuned separately."""
    return cell.dataset, cell.method, cell.d, cell.data.fold


def baseline_name(sweep: str) -> str:
    """The sweep of the same cells with the default settings."""
    return f"{sweep}.default"


def baselines(sweep: str, chosen: Iterable[dict[str, Any]]) -> list[str]:
    """Where to look for the default settings of a tuned sweep: beside it, and beside the tuning that was used."""
    tunings = [choice["study"].split("/")[0] for choice in chosen]
    return [baseline_name(name) for name in dict.fromkeys([sweep, *tunings])]


class Choice(Settings):
    """The best trial of a study."""

    study: str
    trial: int
    dataset: str
    digest: str
    method: str
    d: int
    split_seed: int
    holdout: int | float = Field(description="graphs that no trial saw, drawn from split_seed; all others were seen")
    metric: str
    value: float
    default: float | None = Field(description="value of trial 0, the default settings")
    settings: dict[str, Any]
    fold: int | None = None
    held_out: str = Field("", description="what the holdout depends on, if it is not drawn from split_seed")
    code: str = Field("", description="the method by the digest of its code, if it is a plug-in")

    @property
    def kind(self) -> Kind:
        return self.dataset, self.method, self.d, self.fold

    @property
    def tags(self) -> dict[str, str]:
        return {"study": self.study, "trial": str(self.trial)}

    def apply(self, settings: RunSettings) -> RunSettings:
        """The settings with the chosen values, and with the holdout that the trials never saw."""
        if not self.held_out:
            data = settings.data.model_copy(update={"split_seed": self.split_seed})
            settings = settings.model_copy(update={"data": data})
        return with_values(settings, self.settings)


def code_of(settings: RunSettings) -> str:
    """The method as the cell key has it, if it is a plug-in; empty if it is built in."""
    by_digest = str(key_fields(settings)["method"])
    return by_digest if by_digest != settings.method else ""


def write_choices(choices: Iterable[Choice], folder: Path) -> None:
    document = masked({"studies": [choice.model_dump() for choice in choices]})
    (folder / FILE).write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def best_of(study: dict[str, Any]) -> dict[str, Any] | None:
    """The best finished trial of a study in studies.json."""
    rows = [row for row in study["trials"] if row["value"] is not None]
    sign = -1 if study["maximise"] else 1
    return min(rows, key=lambda row: (sign * row["value"], row["number"]), default=None)


def read_choices(words: Iterable[str], runs: Path) -> dict[Kind, Choice]:
    """`words` name tunings, single studies of them (TUNING/dataset/method/d10), or files."""
    choices: dict[Kind, Choice] = {}
    for word in words:
        for choice in _read(word, runs):
            if choice.kind in choices:
                raise ConfigError(f"tuned={word}: {choices[choice.kind].study} is for the same cells; give one of them")
            choices[choice.kind] = choice
    return choices


def _read(word: str, runs: Path) -> list[Choice]:
    path = Path(word) if Path(word).is_file() else runs / "tunings" / folder_name(word.split("/")[0]) / FILE
    if not path.is_file():
        known = sorted(file.parent.name for file in runs.glob(f"tunings/*/{FILE}"))
        hint = "it has not finished; run its `permlab tune` again" if path.parent.is_dir() else "no such tuning"
        raise ConfigError(f"tuned={word}: {hint}; finished tunings in {runs}: {', '.join(known) or 'none'}")
    try:
        choices = [Choice.model_validate(row) for row in load_yaml(path.read_text(encoding="utf-8"))["studies"]]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"tuned={word}: {path} does not contain the settings that a tuning chose") from None
    if Path(word).is_file() or "/" not in word:
        return choices
    chosen = [choice for choice in choices if choice.study == word]
    if not chosen:
        raise ConfigError(f"tuned={word}: choose from {', '.join(choice.study for choice in choices)}")
    return chosen


def check_choice(choice: Choice, settings: RunSettings, manifest: Manifest, group: np.ndarray) -> None:
    """A tuned cell may hold out only graphs that its study never saw. `group` is the data set's array."""
    if choice.digest != manifest.digest:
        raise ConfigError(f"{choice.study} was tuned on another version of {choice.dataset}; tune again")
    if choice.code != code_of(settings):
        raise ConfigError(f"{choice.study} was tuned with another version of {choice.method}; tune again")
    if choice.held_out != settings.held_out:
        raise ConfigError(f"{choice.study} was tuned on another split (data.splits, and its settings); tune again")
    if choice.held_out:
        return
    if settings.data.split_seed not in (None, choice.split_seed):
        raise ConfigError(
            f"{choice.study} was tuned with data.split_seed={choice.split_seed}; with {settings.data.split_seed} the "
            "holdout would contain graphs that the tuning saw"
        )
    holdout = manifest.holdout if settings.data.holdout is None else settings.data.holdout
    held, never_seen = (split(group, size, choice.split_seed).holdout for size in (holdout, choice.holdout))
    if seen := len(np.setdiff1d(held, never_seen)):
        raise ConfigError(
            f"{choice.study} was tuned with data.holdout={choice.holdout}, so it saw {seen} of the {len(held)} graphs "
            f"that data.holdout={holdout} holds out; set data.holdout={choice.holdout}, or tune again with {holdout}"
        )
