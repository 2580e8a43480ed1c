"""The error for bad input to a readout, a key or a certificate, worded for the user."""


class ReadoutError(ValueError):
    """One line that names the limit, the value and the valid choices."""

    exit_code = 2
