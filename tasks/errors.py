"""The error for a loss, metric or objective that does not fit, worded for the user."""


class ObjectiveError(ValueError):
    """One line that names what was asked for and the valid choices."""

    exit_code = 2
