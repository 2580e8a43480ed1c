"""Memory for the intermediate arrays of a step, reused at every step: fresh memory costs as much as many products."""

import math

import numpy as np

_LINE = 16  # floats: every array begins at a cache line


def aligned(count: int) -> np.ndarray:
    """This many float32, uninitialised, beginning at a cache line."""
    memory = np.empty(count + _LINE, dtype=np.float32)
    first = -(memory.ctypes.data // memory.itemsize) % _LINE
    return memory[first : first + count]


class Room:
    """`take` arrays during a step; `clear` before the next one, when none of them is in use."""

    def __init__(self) -> None:
        self._memory, self._used = np.empty(0, dtype=np.float32), 0

    def take(self, *shape: int) -> np.ndarray:
        """Uninitialised float32, C-contiguous."""
        count = math.prod(shape)
        first, self._used = self._used, self._used + -(-count // _LINE) * _LINE
        if self._used > len(self._memory):
            return np.empty(shape, dtype=np.float32)
        return self._memory[first : first + count].reshape(shape)

    def clear(self) -> None:
        if self._used > len(self._memory):
            self._memory = aligned(self._used + self._used // 4)
        self._used = 0
