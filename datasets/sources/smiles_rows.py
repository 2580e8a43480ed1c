"""Rows of SMILES and labels, in a table read in blocks, to molecules: what a user's table and MoleculeNet share.

Rows are numbered from 1, the header not counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from permlab.datasets.chunk import GraphChunk, make_chunk
from permlab.datasets.errors import DataError
from permlab.datasets.left_out import LeftOut
from permlab.datasets.molecules import MOST_CHARACTERS, Molecules, read_in_parallel
from permlab.datasets.randomness import random_order

ROWS_A_CHUNK = 2048


class Labels(NamedTuple):
    """What one pass over the targets finds."""

    rows: int
    only_zero_one: bool
    gaps: bool


@dataclass(frozen=True)
class SmilesRows:
    """`source` is a pyarrow Dataset, `name` what errors call it."""

    source: Any
    name: str
    smiles: str
    targets: Sequence[str]
    layout: str

    def survey(self, skip_missing: bool) -> Labels:
        """One pass over the targets alone. A row without its only label is an error, unless such rows are skipped."""
        rows, only_zero_one, gaps = 0, True, False
        for batch in self._batches(self.targets):
            values = _numbers(batch, self.targets)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad) and len(self.targets) == 1 and not skip_missing:
                raise DataError(
                    f"{self.name}, row {rows + bad[0] + 1}: the target {self.targets[0]!r} is missing or not finite; "
                    "fix the row or pass skip_invalid=true"
                )
            rows += len(values)
            only_zero_one &= bool(np.isin(values[np.isfinite(values)], (0, 1)).all())
            gaps |= bool(np.isnan(values[_labelled(values)]).any())
        if not rows:
            raise DataError(f"{self.name} has no rows")
        return Labels(rows, only_zero_one, gaps)

    def chunks(
        self, total: int, left_out: LeftOut, skip_invalid: bool, wanted: np.ndarray | None = None
    ) -> Iterator[GraphChunk]:
        """The molecules of all rows, or of the rows `wanted` [total] alone. Those that give no graph are added to
        `left_out`; without `skip_invalid` the first that RDKit does not read is an error.
        """
        pending: list[tuple[np.ndarray, list[str], np.ndarray]] = []  # rows, SMILES and labels that are being parsed

        def smiles() -> Iterator[list[str]]:
            first = 0
            for batch in self._batches([self.smiles, *self.targets]):
                rows = np.arange(first, first + len(batch))
                first += len(batch)
                if first > total:
                    break
                if wanted is not None:
                    batch, rows = batch.filter(pa.array(wanted[rows])), rows[wanted[rows]]
                texts = [str(text or "") for text in batch.column(self.smiles).to_pylist()]
                pending.append((rows, texts, _numbers(batch, self.targets)))
                yield texts
            if first != total:
                raise DataError(f"{self.name} changed while it was read")

        for molecules in read_in_parallel(smiles(), self.layout, scaffolds=True):
            rows, texts, y = pending.pop(0)
            if not skip_invalid and not molecules.valid.all():
                bad = int(np.argmin(molecules.valid))
                raise DataError(
                    f"{self.name}, row {rows[bad] + 1}: {texts[bad][:200]!r} is not a SMILES that RDKit reads, of at "
                    f"most {MOST_CHARACTERS:,} characters; fix the row or pass skip_invalid=true"
                )
            unused = np.flatnonzero(~(molecules.valid & _labelled(y)))
            left_out.add([(rows[i] + 1, texts[i], _why(texts[i], molecules.valid[i], y[i])) for i in unused])
            chunk = _with_labels(molecules, y, rows)
            if len(chunk):
                yield chunk

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        try:
            yield from self.source.to_batches(columns=list(columns), batch_size=ROWS_A_CHUNK)
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.name} cannot be read: {first_line(error)}") from None


def subset(total: int, limit: int, seed: int) -> np.ndarray:
    """[total] bool: `limit` random rows."""
    wanted = np.zeros(total, dtype=bool)
    wanted[random_order(total, seed)[:limit]] = True
    return wanted


def _with_labels(molecules: Molecules, y: np.ndarray, row: np.ndarray) -> GraphChunk:
    """The molecules that parsed, without those that have no label; y is [rows, T]."""
    y, graph_id = y[molecules.valid], row[molecules.valid]
    keep = _labelled(y)
    node_keep = np.repeat(keep, molecules.counts)
    new_row = np.cumsum(node_keep) - 1
    edge_keep = node_keep[molecules.src]
    return make_chunk(
        molecules.x[node_keep],
        molecules.counts[keep],
        new_row[molecules.src[edge_keep]],
        new_row[molecules.dst[edge_keep]],
        y[keep],
        graph_id[keep],
        molecules.group[keep],
        molecules.edge_attr[edge_keep],
        list(compress(molecules.scaffold or [], keep)),
    )


def _why(smiles: str, valid: bool, y: np.ndarray) -> str:
    """The reason why a row gives no graph; y is [T]."""
    if len(smiles) > MOST_CHARACTERS:
        return f"SMILES of more than {MOST_CHARACTERS:,} characters"
    if not valid:
        return "SMILES not read by RDKit" if smiles else "no SMILES"
    return f"label {y[0]}" if np.isinf(y[0]) else "no label"


def _labelled(y: np.ndarray) -> np.ndarray:
    """Which rows of [rows, T] have a label; an infinite one of several is an error that is found later."""
    return np.isfinite(y[:, 0]) if y.shape[1] == 1 else ~np.isnan(y).all(axis=1)


def _numbers(batch: Any, columns: Sequence[str]) -> np.ndarray:
    """[rows, columns]; an empty cell is NaN."""
    cast = [batch.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for name in columns]
    return np.stack(cast, axis=1)


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
