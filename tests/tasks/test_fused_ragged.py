import torch
from hypothesis import given
from hypothesis import strategies as st

from permlab.readouts.segments import flat_padded
from permlab.tasks.fused_ragged import FusedRagged
from permlab.tasks.ragged import RaggedLinear


@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=20),
    channels=st.sampled_from([1, 3, 17]),
    spare=st.integers(0, 40),
    relu=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_equals_a_dense_layer_on_the_padded_rows(
    sizes: list[int], channels: int, spare: int, relu: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    max_nodes = max(1, max(sizes) + spare)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    rows = torch.randn(int(ptr[-1]), channels, requires_grad=True)
    layer = RaggedLinear(channels, max_nodes, 21)
    weight, bias = layer.weight, layer.bias
    z = flat_padded(rows.double(), ptr, max_nodes) @ weight.double().T + bias
    expected = (z.relu() if relu else z).float()
    direction = torch.randn_like(expected)
    theirs = torch.autograd.grad((expected * direction).sum(), (rows, weight, bias))
    found = FusedRagged.apply(rows, weight, bias, ptr, layer, relu)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for _ in range(2):  # memory that is taken again holds nothing of the time before
        ours = torch.autograd.grad((found * direction).sum(), (rows, weight, bias), retain_graph=True)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_it_is_taken_where_it_is_the_faster_one() -> None:
    before, ptr = torch.get_num_threads(), torch.tensor([0, 70, 90])
    layer = RaggedLinear(2, 200, 5)
    try:
        for threads, taken in ((1, True), (2, False)):
            torch.set_num_threads(threads)
            out = layer(torch.randn(90, 2), ptr, "relu")
            assert ("FusedRagged" in str(out.grad_fn)) == taken
    finally:
        torch.set_num_threads(before)
