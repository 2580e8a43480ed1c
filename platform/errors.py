"""Errors that the user sees as one line."""

from pathlib import Path
from typing import NamedTuple


class ConfigError(Exception):
    """The settings are wrong (exit code 2)."""

    exit_code = 2


class RunError(Exception):
    """A run failed (exit code 1)."""

    exit_code = 1


class Diverged(RunError):
    """A loss became NaN or infinite."""


class StopNow(BaseException):
    """A second Ctrl-C. Not a KeyboardInterrupt: Lightning would swallow that and end the process itself."""


class RunStopped(Exception):
    """A signal asked the run to stop; it saved its state first."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class RunPruned(RunStopped):
    """Other runs did better by this epoch, so this one is not worth its time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 0)


class Ended(NamedTuple):
    """How a sweep or a tuning ended: the exit code of its command, and why if it is not 0."""

    code: int = 0
    message: str = ""

    def check(self) -> None:
        """Raise the error that the code stands for."""
        if self.code > 128:
            raise RunStopped(self.message, self.code - 128)
        if self.code:
            raise RunError(self.message)


class DamagedFile(RunError):
    """A cell's file has changed since it was written. Only that cell is affected; it must be run again."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"{self.path} is damaged: {self.what}"


class SettingError(ConfigError, ValueError):
    """One setting is wrong, found where it is validated or where it is used."""
