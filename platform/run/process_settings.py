"""Set what a run needs in its process, and put it back: threads, deterministic mode, random state, warnings, logs."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

LOGGER = logging.getLogger("pytorch_lightning")  # silenced: it prints accelerators and advertisements
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"  # Lightning sets it with deterministic=True


@contextmanager
def process_for_runs(threads: int | None) -> Iterator[None]:
    """Set up the process for runs; afterwards its state is restored, whatever happens inside.

    Deterministic mode would also fill uninitialised memory; nothing here reads it, and filling it is slow.
    """
    deterministic, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    filling = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    before, level, workspace = torch.get_num_threads(), LOGGER.level, os.environ.get(CUBLAS)
    benchmark, gradients = torch.backends.cudnn.benchmark, torch.is_grad_enabled()
    with warnings.catch_warnings(), _random_state():
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        LOGGER.setLevel(logging.ERROR)
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        if threads:
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
            torch.utils.deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
            torch.backends.cudnn.benchmark = benchmark
            torch.set_grad_enabled(gradients)
            LOGGER.setLevel(level)
            if workspace is None:
                os.environ.pop(CUBLAS, None)
            else:
                os.environ[CUBLAS] = workspace


def _random_state() -> AbstractContextManager[None]:
    """Restore the random state of the CPU, and of an accelerator in use: asking an idle one would start it."""
    if torch.backends.mps.is_available():
        return torch.random.fork_rng([0], device_type="mps")
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    return torch.random.fork_rng(devices, device_type="cuda")
