import torch

from permlab.readouts.theory.keys import full_spark, identity_plus_ones
from permlab.readouts.theory.spark import enough_columns


def test_columns_are_enough_from_n_times_d_minus_one_plus_one_on() -> None:
    for n, d in ((1, 4), (2, 2), (3, 3), (7, 2), (30, 1)):
        assert enough_columns(full_spark(d, n * (d - 1) + 1), n)
        assert d == 1 or not enough_columns(full_spark(d, max(d, n * (d - 1) + 1))[:, : n * (d - 1) + 1], n + 1)


def test_repeated_columns_do_not_count() -> None:
    A = full_spark(2, 3)
    assert not enough_columns(torch.cat([A, -2 * A[:, :1]], dim=1), 3)


def test_the_key_of_section_4_is_enough_for_few_sizes() -> None:
    sizes = [(n, d) for n in range(1, 5) for d in range(1, 5) if enough_columns(identity_plus_ones(d), n)]
    assert sizes == [(n, d) for n in range(1, 5) for d in range(1, 5) if n == 1 or d == 1 or n == d == 2]
