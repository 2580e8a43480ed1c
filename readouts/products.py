"""Products of matrices, without a tape: compiled for one core with wide vectors, else torch's.

What is compiled gives the same bits wherever it runs with one thread; torch's share out the work among its threads.
"""

import numpy as np
import torch
from torch import Tensor

from permlab.readouts.loops.gemm import outer as _outer
from permlab.readouts.loops.gemm import times
from permlab.readouts.loops.vectors import AVAILABLE

NARROW = 16  # columns; MKL takes three to five times as long over fewer, unless they are the rows of the product


def on_cpu(*tensors: Tensor) -> bool:
    """Whether compiled loops can take these: single precision, on the host."""
    for each in tensors:  # noqa: SIM110  asked at every turn, and `all` takes longer
        if each.dtype != torch.float32 or not each.is_cpu:
            return False
    return True


def fast(*tensors: Tensor) -> bool:
    """Whether the compiled products can take these, and are the faster ones."""
    return AVAILABLE and torch.get_num_threads() == 1 and on_cpu(*tensors)


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a b + bias, [n, p] × [p, q] + [q]."""
    n, (p, q) = len(a), b.shape
    if n and p and q and fast(a, b):
        a, out, below = a.contiguous(), a.new_empty(n, q), 0 if bias is None else bias.data_ptr()
        times(a.data_ptr(), p, n, p, b.data_ptr(), *b.stride(), below, q, 0, 0, 0, out.data_ptr(), q)
        return out
    if not 1 < q < NARROW:
        return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)
    out = transposed(torch.mm(b.T, a.T))
    return out if bias is None else out.add_(bias)


def outer(a: Tensor, g: Tensor) -> Tensor:
    """aᵀ g: [n, p], [n, q] → [p, q]."""
    (n, p), q = a.shape, g.size(1)
    if n and p and q and fast(a, g):
        a, g, out = a.contiguous(), g.contiguous(), a.new_empty(p, q)
        _outer(a.data_ptr(), n, p, g.data_ptr(), q, out.data_ptr(), q)
        return out
    return torch.mm(g.T, a).T if q < NARROW else torch.mm(a.T, g)


def transposed(x: Tensor) -> Tensor:
    """xᵀ, copied: [n, k] → [k, n]."""
    if x.device.type == "cpu" and min(x.shape) < 32 and not torch.is_grad_enabled():  # NumPy takes half the time
        return torch.from_numpy(np.ascontiguousarray(x.numpy().T))
    return x.T.contiguous()
