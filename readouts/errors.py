"""Bad input to a readout, a key or a certificate, in words meant for its user."""


class ReadoutError(ValueError):
    """One line that names the limit, the value and the valid choices."""

    exit_code = 2
