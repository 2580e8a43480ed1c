"""Errors about data sets, worded for the user.

Each message is one line that says what is wrong, where, and what to do.
"""


class DataError(Exception):
    """The data, the cache or the disk is not as it should be (exit code 1)."""

    exit_code = 1


class DataUsageError(DataError):
    """The call was wrong: an unknown name, parameter or value (exit code 2)."""

    exit_code = 2


class DatasetNameError(DataUsageError):
    """No data set has that name."""
