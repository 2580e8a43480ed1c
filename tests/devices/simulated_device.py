"""A device other than the CPU on a machine without a GPU: torch's "sim".

Each of its tensors holds a CPU tensor, and every operator runs on those, so the numbers are right. Like CUDA it refuses
to mix devices in an operator, and it counts where CUDA would make the host wait. A process started with this folder in
its PYTHONPATH has the device as soon as it imports torch, which finds `install` as it finds the extensions of vendors
(the folder beside this file names it). `install` cannot be undone, so no other test may run in such a process.

It is written for torch 2.13 and uses what torch keeps private: the registration of a backend in Python.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
waits: Counter[str] = Counter()  # how often the host has waited for the device, by what it waited for
_has_double = True
_aten_library = torch.library.Library("aten", "IMPL")  # kernels are registered as long as it lives


class SimulatedTensor(Tensor):
    """A tensor on "sim:0" with the numbers of `host`."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> "SimulatedTensor":
        layout = {"strides": host.stride(), "storage_offset": host.storage_offset(), "dtype": host.dtype}
        return Tensor._make_wrapper_subclass(cls, host.size(), **layout, device="sim:0")

    def __init__(self, host: Tensor) -> None:
        self.host = host

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def tolist(self) -> Any:  # torch has none for subclasses
        return self.cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"sim({self.host})"


class _Factories(TorchDispatchMode):
    """For operators that make a tensor on the device from none that is there."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled in here; telling the compiler so costs as much as the operator itself

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        here = SimulatedTensor in types or _is_sim(kwargs.get("device"))
        return _run(func, args, kwargs) if here else func(*args, **kwargs)


def install() -> None:
    """Make "sim" a device of this process, and its accelerator."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("sim")
    torch.__future__.set_swap_module_params_on_conversion(True)
    _Factories().__enter__()
    for name in ("empty_strided", "copy_"):  # how torch.tensor(…, device="sim") gets there
        _aten_library.impl(name, _kernel(getattr(aten, name).default), "PrivateUse1")


@contextmanager
def no_waiting() -> Iterator[None]:
    """The host does not wait for the device in here."""
    waits.clear()
    yield
    assert not waits, f"the host waited for the device: {dict(waits)}"


@contextmanager
def no_double() -> Iterator[None]:
    """The device has no double precision in here, as Apple's has none."""
    global _has_double
    _has_double = False
    try:
        yield
    finally:
        _has_double = True


def _kernel(func: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: _run(func, args, kwargs)


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operator with a tensor on the device among its arguments, or with device="sim"."""
    if func.namespace != "aten":  # an operator that is defined in Python: by its definition, step by step
        with _Factories():
            return func._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
    if torch.Tag.inplace_view in func.tags:
        raise NotImplementedError(f"{func} on the simulated device")
    tensors: dict[int, Tensor] = {}  # the given ones, by what they hold

    def on_host(tensor: Tensor) -> Tensor:
        host = tensor.host if isinstance(tensor, SimulatedTensor) else tensor
        tensors[id(host)] = tensor
        return host

    def on_device(host: Tensor) -> Tensor:  # what was changed in place is the given one itself
        if host.dtype == torch.float64 and not _has_double:
            raise TypeError("the simulated device has no float64 in here")
        return tensors[id(host)] if id(host) in tensors else SimulatedTensor(host)

    reason, to_host = _why_wait(func, args, kwargs), func is COPIES[0] and not _is_sim(kwargs.get("device") or "sim")
    args, kwargs = _each_tensor(on_host, args), {name: _each_tensor(on_host, value) for name, value in kwargs.items()}
    if func not in COPIES:
        _refuse_mixed(func, tensors.values())
    waits.update([reason] if reason else [])
    if _is_sim(kwargs.get("device")):
        kwargs["device"] = torch.device("cpu")
    result = _REPLACED.get(func, func)(*args, **kwargs)
    return result if to_host else _each_tensor(on_device, result)


def _each_tensor(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_each_tensor(change, part) for part in value)
    return change(value) if isinstance(value, Tensor) else value


def _is_sim(device: Any) -> bool:
    return device is not None and torch.device(device).type == "sim"


def _refuse_mixed(func: Any, tensors: Iterable[Tensor]) -> None:
    devices = {tensor.device.type for tensor in tensors if tensor.dim() or isinstance(tensor, SimulatedTensor)}
    if len(devices) > 1:
        raise RuntimeError(
            f"{func}: expected all tensors on the same device, but found {' and '.join(sorted(devices))}"
        )


def _why_wait(func: Any, args: Any, kwargs: Any) -> str:
    """What CUDA would make the host wait for in this call; empty if nothing."""
    if func in COPIES:
        source, target = (args[0], kwargs.get("device") or "sim") if func is COPIES[0] else (args[1], args[0].device)
        if isinstance(source, SimulatedTensor):
            return "" if _is_sim(target) else "copy to the host"
        return "" if kwargs.get("non_blocking") or args[2:] == (True,) else "blocking copy from the host"
    name = func.overloadpacket.__name__
    if func in INDEXED:
        masks = [index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8)]
        return f"{name} by a mask" if masks else ""
    depends = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)
    return name if depends and kwargs.get("output_size") is None else ""


def _lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cell: Tensor, input_bias: Tensor, hidden_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = (input_gates + input_bias + hidden_gates + hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new_cell = f * cell + i * g
    return o * new_cell.tanh(), new_cell, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    grad_hidden: Tensor | None, grad_cell: Tensor | None, cell: Tensor, new_cell: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, 1)
    tanh = new_cell.tanh()
    grad_hidden = torch.zeros_like(tanh) if grad_hidden is None else grad_hidden
    inner = grad_hidden * o * (1 - tanh**2) + (0 if grad_cell is None else grad_cell)
    grads = [
        inner * g * i * (1 - i),
        inner * cell * f * (1 - f),
        inner * i * (1 - g**2),
        grad_hidden * tanh * o * (1 - o),
    ]
    grad = torch.cat(grads, 1)
    return grad, inner * f, grad.sum(0)


# An LSTM cell is one operator on accelerators, with no kernel for the CPU.
_REPLACED = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
}
