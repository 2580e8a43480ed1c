"""The error for bad input to a readout, a key or a certificate, and one line about what somebody's code raised."""


class ReadoutError(ValueError):
    """One line that names the limit, the value and the valid choices."""

    exit_code = 2


def said(error: BaseException) -> str:
    """`ValueError: the first line of it`."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
