"""Measure this machine: ours beside the plain way, in one run.

permlab bench data     build, open and read data sets: time and memory
permlab bench sweep    what a cell costs on its way through plan, Ray, tracking and table
permlab bench train    training through `permlab train` beside a plain PyG + Lightning script
"""

import argparse
import importlib

from permlab.platform.console import print_json

TOPICS = ("data", "sweep", "train")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", choices=TOPICS)
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")


def run(args: argparse.Namespace) -> int:
    topic = importlib.import_module(f"permlab.platform.bench.{args.topic}")
    result = topic.measure()
    if args.json:
        print_json(result)
    else:
        topic.show(result)
    return 0
