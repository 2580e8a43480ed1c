"""Data sets as memory-mapped Arrow shards.

  permlab data list                    known data sets, and those that are built
  permlab data build NAME [key=value]  build it (qm9, moleculenet:hiv, tu:MUTAG, synthetic, table:FILE, …)
  permlab data info NAME               counts, sizes, target, split
  permlab data verify NAME             compare every file with its digest
  permlab data path NAME               its folder

Parameters are part of the name: `permlab data build qm9 limit=5000` builds `qm9,limit=5000`.
The cache is in PERMLAB_CACHE (default ~/.cache/permlab), which may be on object storage (s3://bucket/folder): then this
machine keeps copies in PERMLAB_LOCAL_CACHE. Archives of TU and MoleculeNet are looked for in PERMLAB_MIRROR first.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from permlab.datasets.cache import cache_root, fetch, folder_of, verify
from permlab.datasets.catalogue import SOURCES, parse_name
from permlab.datasets.errors import DataError
from permlab.datasets.left_out import LIST
from permlab.datasets.manifest import Manifest, open_array, read_manifest
from permlab.datasets.splits import split
from permlab.datasets.store import GraphStore
from permlab.platform.display.build_bar import build_with_bar
from permlab.platform.display.console import err, out, print_json, progress_bar
from permlab.platform.display.histogram import draw, histogram
from permlab.platform.settings.words import load_data

ACTIONS = ("list", "build", "info", "verify", "path")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("name", nargs="*", help="the data set's name and its key=value parameters")
    parser.add_argument("--force", action="store_true", help="build: rebuild it even if it is intact")
    parser.add_argument("--seed", type=int, default=0, help="info: the seed of the split shown (default 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        return _list(args.json)
    if not args.name:
        err.print(f"permlab data {args.action}: which data set? See: permlab data list")
        return 2
    name = ",".join(args.name)
    load_data(name)
    actions = {"build": _build, "info": _info, "verify": _verify, "path": _path}
    return actions[args.action](name, args)


def built() -> list[Manifest]:
    """Manifests of the data sets in the cache; a damaged one is noted and left out."""
    manifests = []
    for path in sorted(cache_root().glob("*/manifest.json")):
        try:
            manifests.append(read_manifest(path.parent, path.parent.name))
        except DataError as error:
            err.print(f"note: {error}", markup=False)
    return manifests


def size_in_mb(manifest: Manifest) -> float:
    return sum(entry.bytes for entry in manifest.files) / 1e6


def _on_disk(manifest: Manifest) -> str:
    shards = len(manifest.shards)
    return f"{size_in_mb(manifest):,.1f} MB, {shards} shard{'s' * (shards > 1)}"


def _list(as_json: bool) -> int:
    manifests = built()
    if as_json:
        print_json(
            {
                "cache": str(cache_root()),
                "sources": {kind: source.summary for kind, source in SOURCES.items()},
                "built": [_summary(manifest) for manifest in manifests],
            }
        )
        return 0
    sources = Table("name", "what it is", box=None, pad_edge=False, header_style="bold")
    for kind, source in SOURCES.items():
        sources.add_row(f"{kind}:{source.argument.upper()}" if source.argument else kind, source.summary)
    out.print(sources)
    out.print(f"\n[bold]built[/bold] in {escape(str(cache_root()))}:")
    if not manifests:
        out.print("  nothing yet; try: permlab data build qm9")
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (
        ("name", "left"),
        ("graphs", "right"),
        ("nodes", "right"),
        ("MB", "right"),
        ("digest", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for manifest in manifests:
        size = f"{size_in_mb(manifest):,.1f}"
        table.add_row(escape(manifest.name), f"{manifest.graphs:,}", f"{manifest.nodes:,}", size, manifest.digest[:12])
    out.print(table)
    return 0


def _summary(manifest: Manifest) -> dict[str, Any]:
    fields = (
        "name task targets units default_target classes gaps graphs dropped nodes edges min_nodes max_nodes "
        "feature_names edge_feature_names holdout source source_digest digest left_out best"
    )
    return {key: getattr(manifest, key) for key in fields.split()} | {
        "mean_nodes": manifest.nodes / manifest.graphs,
        "shards": len(manifest.shards),
        "bytes": sum(entry.bytes for entry in manifest.files),
    }


def _build(name: str, args: argparse.Namespace) -> int:
    manifest = build_with_bar(name, args.force)
    folder = folder_of(parse_name(name))
    if args.json:
        print_json(_summary(manifest) | _place(manifest, folder))
    else:
        out.print(
            f"{manifest.name}: {manifest.graphs:,} graphs, {manifest.nodes:,} nodes, {manifest.edges:,} edges, "
            f"{_on_disk(manifest)} in {folder}",
            markup=False,
        )
        if manifest.dropped:
            out.print(f"left out: {_left_out(manifest, folder)}", markup=False, soft_wrap=True)
    return 0


def _left_out(manifest: Manifest, folder: Path) -> str:
    """How many rows of the source give no graph, why, and the file that lists them."""
    count = f"{manifest.dropped:,} row{'s' * (manifest.dropped > 1)}"
    if not manifest.lists:  # built by an older version
        return f"{count}, not listed; list them with: permlab data build {manifest.name} --force"
    reasons = ", ".join(f"{reason}: {number:,}" for reason, number in manifest.left_out.items())
    return f"{count} ({reasons}), listed in {folder / LIST}"


def _place(manifest: Manifest, folder: Path) -> dict[str, Any]:
    return {"path": str(folder), "left_out_list": str(folder / LIST) if manifest.lists else None}


def _verify(name: str, args: argparse.Namespace) -> int:
    with progress_bar("verifying", "bytes") as progress:
        manifest = verify(name, progress)
    if args.json:
        print_json({"name": manifest.name, "digest": manifest.digest, "files": len(manifest.files), "whole": True})
    else:
        out.print(f"{manifest.name}: all {len(manifest.files)} files match; digest {manifest.digest}", markup=False)
    return 0


def _path(name: str, args: argparse.Namespace) -> int:
    parsed = parse_name(name)
    read_manifest(fetch(parsed), parsed.text)
    if args.json:
        print_json({"name": parsed.text, "path": str(folder_of(parsed))})
    else:
        out.print(str(folder_of(parsed)), markup=False)
    return 0


def _info(name: str, args: argparse.Namespace) -> int:
    parsed = parse_name(name)
    folder = fetch(parsed)
    manifest = read_manifest(folder, parsed.text)
    target = manifest.default_target or manifest.targets[0]
    store = GraphStore(folder, manifest, target=target)
    y, missing = store.y[~np.isnan(store.y)], int(np.isnan(store.y).sum())
    node_ptr, group = (open_array(folder, array, parsed.text) for array in ("node_ptr", "group"))
    sizes = np.diff(node_ptr)
    parts = split(group, manifest.holdout, args.seed)
    details: dict[str, Any] = {
        "size_histogram": histogram(sizes, whole=True),
        "target": target,
        "target_missing": missing,
        "target_histogram": histogram(y, whole=manifest.task == "classification"),
        "target_mean": float(y.mean(dtype=np.float64)),
        "target_std": float(y.std(dtype=np.float64)),
        "split": {"seed": args.seed, "train": len(parts.train), "holdout": len(parts.holdout)},
        "duplicates": manifest.graphs - len(np.unique(group)),
    }
    if args.json:
        print_json(_summary(manifest) | details | _place(manifest, folder))
        return 0
    unit = store.units[0] and f" ({store.units[0]})"
    several = f"{len(manifest.targets)} targets: {_shorten(manifest.targets)}"
    facts = {
        "task": f"{manifest.task}, {several if len(manifest.targets) > 1 else f'target {target}{unit}'}",
        "graphs": f"{manifest.graphs:,}"
        + (f", {details['duplicates']:,} of them duplicates of another" if details["duplicates"] else ""),
        "nodes": f"{manifest.nodes:,}; {manifest.min_nodes} to {manifest.max_nodes} per graph, "
        f"mean {manifest.nodes / manifest.graphs:.2f}",
        "edges": f"{manifest.edges:,} directed",
        "features": f"{len(manifest.feature_names)}: {_shorten(manifest.feature_names)}",
        "edge features": f"{len(manifest.edge_feature_names)}: {_shorten(manifest.edge_feature_names)}".rstrip(": "),
        "split": f"{len(parts.train):,} train, {len(parts.holdout):,} holdout (seed {args.seed})",
        "on disk": f"{_on_disk(manifest)} in {folder}",
        "digest": manifest.digest,
    }
    if manifest.dropped:
        facts["left out"] = _left_out(manifest, folder)
    if manifest.best:
        facts["best possible"] = ", ".join(f"{metric} {score:g}" for metric, score in manifest.best.items())
    grid = Table.grid(padding=(0, 2))
    for label, text in facts.items():
        grid.add_row(f"[bold]{label}[/bold]", escape(text))
    out.print(f"[bold]{escape(manifest.name)}[/bold]")
    out.print(grid)
    out.print("\n[bold]nodes per graph[/bold]")
    draw(details["size_histogram"])
    mean, std = details["target_mean"], details["target_std"]
    gaps = f", {missing:,} labels missing" if missing else ""
    out.print(f"\n[bold]{escape(target + unit)}[/bold]  mean {mean:.3f}, standard deviation {std:.3f}{gaps}")
    draw(details["target_histogram"])
    return 0


def _shorten(names: list[str], most: int = 11) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
