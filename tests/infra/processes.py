"""Processes, ports and waiting, for the tests that start real services."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable

import psutil


def free_ports(count: int) -> list[int]:
    """Held open until all are chosen, so that no two are the same."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def processes_of_session(leader: int) -> list[psutil.Process]:
    """All processes of the session that process `leader` started, those of Ray among them."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader:
                members.append(process)
        except ProcessLookupError:
            pass
    return members


def command_line(process: psutil.Process) -> str:
    """Empty for a process that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def listening_addresses(processes: Iterable[psutil.Process]) -> list[str]:
    """The address of every TCP port on which one of these processes listens."""
    pids = {process.pid for process in processes}
    connections = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.pid in pids]
    return [connection.laddr.ip for connection in connections]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 240) -> None:
    """Until the condition holds; the process must still be running then."""
    limit = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise AssertionError(process.communicate())
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.1)
    assert process.poll() is None, process.communicate()
