"""infra/slurm/sweep.sbatch on a real Slurm of one node: SIGTERM, checkpoint, requeued, finished."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.infra.processes import free_ports
from tests.infra.sweeps import epochs_stored, finished_metrics, undisturbed_metrics

pytestmark = pytest.mark.cluster
SCRIPT = Path(__file__).parents[2] / "infra" / "slurm" / "sweep.sbatch"
GRID = [
    "name=slurm",
    "dataset=synthetic,graphs=300,max_nodes=12,task=classification",
    "method=sum",
    "d=3",
    "seed=[0,1]",
]
GRID += ["train.epochs=1000", "train.checkpoint_every=1000000", "train.eval_every=500", "track=false"]
DAEMONS = ("munged", "slurmctld", "slurmd")


@pytest.fixture
def slurm(one_ray: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a Slurm of its own; SLURM_CONF points its commands there."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    programs = {name: shutil.which(name, path=path) for name in DAEMONS}
    if missing := [name for name, program in programs.items() if not program]:
        pytest.skip(f"there is no {', '.join(missing)} (packages munge and slurm-wlm)")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons want to be root")
    folder = Path(tempfile.mkdtemp(prefix="permlab-"))  # short: the path of a socket has at most 107 characters
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(mode=0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(0o400)
    control, node = free_ports(2)
    host = socket.gethostname().partition(".")[0]
    settings = {
        "ClusterName": "permlab",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmUser": "root",
        "AuthInfo": f"socket={folder}/munge.sock",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "SlurmctldPort": control,
        "SlurmdPort": node,
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "ReturnToService": 2,
        "NodeName": f"{host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN",
        "PartitionName": f"all Nodes={host} Default=YES State=UP",
    }
    (folder / "slurm.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{path}")
    own = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
    options = {"munged": ["-F", "--force", f"--socket={folder}/munge.sock", *own]}
    running = []
    with (folder / "log").open("w") as log:
        for name in DAEMONS:
            command = [str(programs[name]), *options.get(name, ["-D"])]
            running.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
            time.sleep(0.5)
    try:
        until(lambda: "idle" in ask("sinfo", "-h", "-o", "%T"), folder)
        yield folder
    finally:
        ask("scancel", "--full", "--signal=KILL", "--user=root")
        ask("scancel", "--user=root")
        until(lambda: not ask("squeue", "-h"), folder)
        for process in reversed(running):
            process.terminate()
            process.wait(timeout=60)
        shutil.rmtree(folder)


def ask(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout


def until(condition: Callable[[], bool], folder: Path, seconds: float = 300) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        log = folder / "job.out"
        assert time.monotonic() < limit, log.read_text()[-3000:] if log.exists() else (folder / "log").read_text()
        time.sleep(0.5)


def test_the_requeued_job_resumes_and_finishes(slurm: Path, tmp_path: Path) -> None:
    runs = slurm / "runs"
    out = ["--parsable", f"--output={slurm}/job.out", f"--chdir={slurm}"]
    job = ask("sbatch", *out, str(SCRIPT), *GRID).strip()
    assert job.isdigit()
    until(lambda: epochs_stored(runs) > 20, slurm)
    ask("scancel", "--signal=TERM", "--batch", job)  # as --signal=B:TERM@120 does before the time is up
    until(lambda: "queued again" in (slurm / "job.out").read_text(), slurm)
    assert list(runs.glob("cells/*/checkpoint.pt")), "nothing was saved"
    until(lambda: "PENDING" in ask("squeue", "-h", "-j", job, "-o", "%T"), slurm)
    assert not list((runs / ".slurm").iterdir()), "the token outlived its job"
    ask("scontrol", "update", f"jobid={job}", "StartTime=now")  # Slurm would wait for two minutes
    until(lambda: "COMPLETED" in ask("scontrol", "show", "job", job), slurm)
    assert finished_metrics(runs) == undisturbed_metrics(GRID, tmp_path)
