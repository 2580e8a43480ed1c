"""Errors worded for the user: one line that names what was asked for, and the valid choices."""


class ObjectiveError(ValueError):
    """A loss, metric or objective that does not fit."""

    exit_code = 2


class BackboneError(ValueError):
    """A backbone that cannot be built, or does not fit."""

    exit_code = 2
