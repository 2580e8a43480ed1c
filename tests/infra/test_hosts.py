"""Several hosts on one machine: network namespaces with addresses and folders of their own. One is cut off."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from permlab.platform.run.histories import read_history
from tests.infra.processes import wait_for
from tests.infra.sweeps import finished_metrics, undisturbed_metrics

pytestmark = pytest.mark.cluster
GRID = ["name=hosts", "dataset=synthetic,graphs=300,max_nodes=12,task=classification", "method=[sum,ordering]", "d=3"]
GRID += ["seed=[0,1]", "train.epochs=400", "train.eval_every=200", "track=false"]


class Network:
    """A switch and three hosts, in namespaces; nothing leads out of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"permlab-{os.getpid()}"
        self.processes: list[subprocess.Popen[str]] = []
        self.environment = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.environment.pop("RAY_ADDRESS", None)

    def space(self, host: str) -> str:
        return f"{self.prefix}-{host}"

    def build(self) -> None:
        self._ip("netns", "add", self.space("switch"))
        self._ip("-n", self.space("switch"), "link", "add", "bridge", "type", "bridge")
        self._ip("-n", self.space("switch"), "link", "set", "bridge", "up")
        for number in (1, 2, 3):
            space, port = self.space(str(number)), f"port{number}"
            self._ip("netns", "add", space)
            self._ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", port, "netns", self.space("switch"))
            self._ip("-n", self.space("switch"), "link", "set", port, "master", "bridge", "up")
            self._ip("-n", space, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self._ip("-n", space, "link", "set", device, "up")
            self._ip("-n", space, "route", "add", "default", "dev", "eth0")

    def cut(self, number: int) -> None:
        self._ip("-n", self.space("switch"), "link", "set", f"port{number}", "down")

    def start(self, number: int, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Run it on a host: with an empty disk where the first host has its cache, its runs and Ray's files."""
        private = [self.folder / name for name in ("cache", "runs", "ray")] if number > 1 else []
        mounts = "".join(f"mount -t tmpfs none '{path}' && " for path in private)
        scratch = self.folder / f"tmp{number}"
        scratch.mkdir(exist_ok=True)
        environment = self.environment | {"PERMLAB_CACHE": str(self.folder / "cache"), "TMPDIR": str(scratch)}
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.space(str(number)), "sh", "-c", f'{mounts}exec "$@"', "sh", *command],
            cwd=self.folder,
            env=environment,
            text=True,
            start_new_session=True,
            **options,
        )
        self.processes.append(process)
        return process

    def ray(self, number: int, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        command += [f"--node-ip-address=10.77.0.{number}", "--object-store-memory=100000000", *options]
        with (self.folder / f"ray{number}.log").open("w") as log:
            return self.start(number, *command, stdout=log, stderr=log)

    def remove(self) -> None:
        for host in ("1", "2", "3", "switch"):
            for _ in range(5):
                pids = subprocess.run(["ip", "netns", "pids", self.space(host)], capture_output=True, text=True).stdout
                for pid in map(int, pids.split()):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", self.space(host)], capture_output=True)
        for process in self.processes:
            process.wait(timeout=60)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def network(one_ray: None) -> Iterator[Network]:
    folder = Path(tempfile.mkdtemp(prefix="permlab-"))  # short: Ray's sockets have paths of at most 107 characters
    network = Network(folder)
    for name in ("cache", "runs", "ray"):
        (folder / name).mkdir()
    try:
        network.build()
    except FileNotFoundError:
        pytest.skip("there is no `ip` (package iproute2): hosts in network namespaces cannot be made")
    except subprocess.CalledProcessError as error:
        network.remove()
        pytest.skip(f"no privilege to make network namespaces: {error.stderr.strip()}")
    try:
        yield network
    finally:
        network.remove()
        shutil.rmtree(folder)


def test_a_sweep_that_loses_a_host_finishes_on_the_others(network: Network, tmp_path: Path) -> None:
    head = network.ray(1, "--head", "--port=6379", f"--temp-dir={network.folder}/ray", "--num-cpus=0")
    sweep = [sys.executable, "-m", "permlab.platform.cli", "sweep", *GRID, f"runs={network.folder}/runs"]
    for number in (2, 3):
        network.ray(number, "--address=10.77.0.1:6379", "--num-cpus=1")
    wait_for(lambda: _nodes(network) == 3, head)
    driver = network.start(1, *sweep, "--address", "10.77.0.1:6379", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for(lambda: _epochs(network, 2) > 5 and _epochs(network, 3) > 5, driver)
    network.cut(3)
    lost = _keys(network, 3)
    out, _ = driver.communicate(timeout=600)
    assert driver.returncode == 0 and "on 3 nodes" in out, out
    metrics = finished_metrics(network.folder / "runs")
    assert lost <= set(metrics) and lost <= _keys(network, 2), "what ran on the lost host did not run again elsewhere"
    assert metrics == undisturbed_metrics(GRID, tmp_path)


def _nodes(network: Network) -> int:
    """How many nodes the head counts."""
    code = "import ray; ray.init('10.77.0.1:6379', logging_level='ERROR'); print('nodes', len(ray.nodes()))"
    done = network.start(1, sys.executable, "-c", code, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out, _ = done.communicate(timeout=120)
    return int(out.split()[-1]) if "nodes" in out else 0


def _cells(network: Network, number: int) -> list[Path]:
    return list(network.folder.glob(f"tmp{number}/permlab-*/runs/cells/*/history.jsonl"))


def _keys(network: Network, number: int) -> set[str]:
    return {path.parent.name for path in _cells(network, number)}


def _epochs(network: Network, number: int) -> int:
    return sum(len(read_history(path.parent)) for path in _cells(network, number))
