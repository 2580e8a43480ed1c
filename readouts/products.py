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
    return all(each.dtype == torch.float32 and each.device.type == "cpu" for each in tensors)


def fast(*tensors: Tensor) -> bool:
    """Whether the compiled products can take these, and are the faster ones."""
    return AVAILABLE and torch.get_num_threads() == 1 and on_cpu(*tensors)


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, relu: bool = False, gate: Tensor | None = None) -> Tensor:
    """a b + bias, [n, p] × [p, q] + [q]; with `relu` what is negative is made 0, with a gate [n, q] what is not
    positive there.
    """
    n, (p, q) = len(a), b.shape
    if n and p and q and fast(a, b):
        a, out = a.contiguous(), a.new_empty(n, q)
        strides = b.stride()
        gate = None if gate is None else gate.contiguous()
        optional = (_address(bias), q, relu, _address(gate), 0)
        times(a.data_ptr(), p, n, p, b.data_ptr(), *strides, *optional, out.data_ptr(), q)
        return out
    if 1 < q < NARROW:
        out = transposed(torch.mm(b.T, a.T))
        out = out if bias is None else out.add_(bias)
    else:
        out = torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)
    out = out.relu_() if relu else out
    return out if gate is None else shut(out, gate)


def outer(a: Tensor, g: Tensor) -> Tensor:
    """aᵀ g: [n, p], [n, q] → [p, q]."""
    (n, p), q = a.shape, g.size(1)
    if n and p and q and fast(a, g):
        a, g, out = a.contiguous(), g.contiguous(), a.new_empty(p, q)
        _outer(a.data_ptr(), n, p, g.data_ptr(), q, out.data_ptr(), q)
        return out
    return torch.mm(g.T, a).T if q < NARROW else torch.mm(a.T, g)


def shut(grad: Tensor, gate: Tensor) -> Tensor:
    """In place: 0 where the gate is not positive."""
    return torch.ops.aten.threshold_backward.grad_input(grad, gate, 0, grad_input=grad)


def transposed(x: Tensor) -> Tensor:
    """xᵀ, copied: [n, k] → [k, n]."""
    if x.device.type == "cpu" and min(x.shape) < 32 and not torch.is_grad_enabled():  # NumPy takes half the time
        return torch.from_numpy(np.ascontiguousarray(x.numpy().T))
    return x.T.contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
