# SPDX-License-Identifier: Apache-2.0
"""Starts the NIC processes of a topology, finds them again, and stops them."""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, UsageError

from .running import STOP_TIMEOUT_S, RunningNic, ask, lock_of, runtime_root
from .topology import FABRICS, NicEntry, Topology, load_topology, read_key
from .trace import merge_traces

START_TIMEOUT_S = 180.0
MAX_SOCKET_PATH_BYTES = 107


def data_folder(topology: str) -> Path:
    """Return where a topology's namespace files lie by default."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "nicemu" / topology


class Instance:
    """A running topology: its folder, lock, and processes. Use `start`, then `stop`."""

    def __init__(self, topology: Topology, folder: Path, lock: int) -> None:
        self.topology = topology
        self.folder = folder
        self._lock = lock
        self.nics: list[RunningNic] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.trace: Path | None = None

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @classmethod
    def start(
        cls,
        path: str | Path,
        *,
        fabric: str | None = None,
        pcap: Path | None = None,
        trace: Path | None = None,
        data: Path | None = None,
        name: str | None = None,
        only: Sequence[str] = (),
        attached: bool = True,
        progress: Callable[[str], None] = lambda text: None,
    ) -> Instance:
        """Start every NIC of a topology, or `only` those that run on this machine, and wait until all serve.

        `attached`: the NICs end when this process does, however it ends. `data` holds namespace files.
        Raises: UsageError for what is wrong with the topology, NicemuError for a NIC that cannot start; then
        none is left running.
        """
        topology = load_topology(path)
        if fabric is not None and fabric not in FABRICS:
            raise UsageError(f"fabric {fabric!r} is none of {', '.join(FABRICS)}")
        for nic in only:
            known = [entry.name for entry in topology.nics]
            if nic not in known:
                raise UsageError(f"{topology.path} has no NIC {nic!r}; it has {', '.join(known)}")
            if not topology.is_spread:
                raise UsageError(f"{topology.path}: NICs that run apart need an address each")
        _check_length(runtime_root() / (name or topology.name), topology)
        folder, lock = _claim(name or topology.name)
        instance = cls(topology, folder, lock)
        if attached:
            (folder / "attached").touch()
        try:
            instance._launch(fabric or topology.fabric, pcap, trace, data, set(only), progress)
        except BaseException:
            instance.stop()
            raise
        return instance

    def _launch(
        self,
        fabric: str,
        pcap: Path | None,
        trace: Path | None,
        data: Path | None,
        only: set[str],
        progress: Callable[[str], None],
    ) -> None:
        for place in (pcap,):
            if place is not None:
                place.mkdir(parents=True, exist_ok=True)
                if fabric == "direct":
                    fabric = "udp"
                    progress("captures need frames: RDMA goes over UDP instead of direct copies")
        if self.topology.faults and fabric == "direct":
            fabric = "udp"
            progress("faults need frames: RDMA goes over UDP instead of direct copies")
        self.trace = trace.resolve() if trace is not None else None
        files = data or data_folder(self.topology.name)
        files.mkdir(parents=True, exist_ok=True)
        if self.topology.is_spread:
            if fabric != "udp":
                raise UsageError(f'{self.topology.path}: NICs with addresses are joined by "udp" alone')
            ips = {nic.name: str(nic.address) for nic in self.topology.nics}
        else:
            subnet = _free_subnet(len(self.topology.nics))
            ips = {nic.name: f"{subnet}.{number + 1}" for number, nic in enumerate(self.topology.nics)}
        key = read_key(self.topology.key_file) if self.topology.key_file else secrets.token_bytes(32)
        here = [nic for nic in self.topology.nics if not only or nic.name in only]
        compile_datapath(progress)
        lifeline = os.pipe()
        try:
            for nic in here:
                settings = self._settings(nic, ips, fabric, files, pcap)
                settings["key"] = key.hex()
                settings["lifeline"] = lifeline[0]
                self._spawn(nic.name, settings, (lifeline[0],))
        finally:
            os.close(lifeline[0])
            self._lifeline = lifeline[1]
        for nic in here:
            pid = self._await(nic.name)
            progress(f"{nic.name} serves at {ips[nic.name]}")
            self.nics.append(
                RunningNic(
                    nic.name,
                    self.topology.name,
                    pid,
                    self.folder / f"{nic.name}.sock",
                    f"unix:{self.folder / f'{nic.name}.p4rt'}",
                    str(nic.p4),
                    str(nic.firmware),
                    ips[nic.name],
                )
            )
        state = {
            "topology": self.topology.name,
            "trace": str(self.trace) if self.trace else None,
            "nics": [
                {
                    "name": nic.name,
                    "pid": nic.pid,
                    "ip": nic.ip,
                    "program": nic.program,
                    "firmware": nic.firmware,
                }
                for nic in self.nics
            ],
        }
        (self.folder / "state.json").write_text(json.dumps(state))

    _lifeline: int | None = None

    def _settings(
        self, nic: NicEntry, ips: dict[str, str], fabric: str, files: Path, pcap: Path | None
    ) -> dict[str, Any]:
        spaces = []
        for space in nic.namespaces:
            path = Path(space.path) if Path(space.path).is_absolute() else files / space.path
            if space.create and not path.exists():
                from .block_io import create_namespace_file

                create_namespace_file(path, space.size_bytes)
            entry = {"nsid": space.nsid, "block_count": space.size_bytes // 4096, "path": str(path)}
            spaces.append(entry)
        return {
            "nic": {
                "name": nic.name,
                "ip": ips[nic.name],
                "number": self.topology.nics.index(nic),
                "memory_bytes": nic.memory_bytes,
                "transport": "direct" if fabric == "direct" else "port",
                "path_mtu": 4096,
                "spin_us": nic.spin_us,
                "nap_us": nic.nap_us,
                "seed": random.SystemRandom().getrandbits(63),
            },
            "namespaces": spaces,
            "folder": str(self.folder),
            "status": str(self.folder / f"{nic.name}.status"),
            "fabric": fabric,
            "faults": self.topology.faults,
            "pcap": str(pcap.resolve()) if pcap else None,
            "trace": str(self.trace) if self.trace else None,
            "peers": {peer: ips[peer] for peer in nic.peers},
            "places": ips,
            "p4": str(nic.p4),
            "firmware": str(nic.firmware),
        }

    def _spawn(self, name: str, settings: dict[str, Any], fds: tuple[int, ...]) -> None:
        path = self.folder / f"{name}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(settings))
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "nicemu", "nic-process", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(*fds, self._lock),
                start_new_session=True,
            )

    def _await(self, name: str) -> int:
        status = self.folder / f"{name}.status"
        process = self.processes[name]
        deadline = time.monotonic() + START_TIMEOUT_S
        while not status.exists():
            if process.poll() is not None and not status.exists():
                log = (self.folder / f"{name}.log").read_text(errors="replace").strip()
                raise NicemuError(f"{name} ended with status {process.returncode}: {log[-2000:]}")
            if time.monotonic() > deadline:
                raise NicemuError(f"{name} did not serve within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.005)
        told = json.loads(status.read_text())
        if not told["ready"]:
            raise NicemuError(f"{name} cannot start: {told['error']}")
        return int(told["pid"])

    def detach(self) -> list[RunningNic]:
        """Leave the NICs running without this process; they hold the topology's lock themselves."""
        for nic in self.nics:
            ask(nic, "detach")
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        os.close(self._lock)
        return self.nics

    def stop(self) -> None:
        """Stop every NIC, and remove what only a running topology needs."""
        for nic in self.nics:
            try:
                ask(nic, "stop")
            except NicemuError:
                continue
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        for process in self.processes.values():
            try:
                process.wait(STOP_TIMEOUT_S if self.nics else 1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.trace is not None and self.processes:
            merge_traces(self.trace)
        shutil.rmtree(self.folder, ignore_errors=True)
        lock_of(self.folder).unlink(missing_ok=True)
        os.close(self._lock)


def _check_length(folder: Path, topology: Topology) -> None:
    """Refuse a folder whose sockets' paths no socket address holds. Source: unix(7), "Address format"."""
    longest = max(len(os.fsencode(folder / f"{nic.name}.sock")) for nic in topology.nics)
    if longest > MAX_SOCKET_PATH_BYTES:
        raise UsageError(
            f"the sockets of {topology.name} would have paths of {longest} bytes, {MAX_SOCKET_PATH_BYTES}"
            f" are possible; set XDG_RUNTIME_DIR to a shorter path than {folder.parent.parent}"
        )


def _claim(name: str) -> tuple[Path, int]:
    """Return the folder of a topology and the descriptor that holds its lock; NIC processes inherit it."""
    folder = runtime_root() / name
    path = lock_of(folder)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UsageError(f"topology {name} is up already; stop it with `nicemu down`") from error
        if path.exists() and path.stat().st_ino == os.fstat(lock).st_ino:
            break
        os.close(lock)  # whoever held it took the file away with it
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder, lock


def _free_subnet(count: int) -> str:
    """Return the first three numbers of loopback addresses that nobody's request ports use."""
    from nicemu.kv import KV_PORT

    rng = random.SystemRandom()
    for _ in range(64):
        subnet = f"127.{rng.randrange(16, 240)}.{rng.randrange(1, 255)}"
        sockets = []
        try:
            for number in range(count):
                probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sockets.append(probe)
                probe.bind((f"{subnet}.{number + 1}", KV_PORT))
        except OSError:
            continue
        else:
            return subnet
        finally:
            for probe in sockets:
                probe.close()
    raise NicemuError(f"no loopback addresses with a free UDP port {KV_PORT} were found")


def compile_datapath(progress: Callable[[str], None]) -> None:
    """Compile the datapath once, before NIC processes start, unless that was done by an earlier run."""
    from nicemu.hot import JIT, cache_folder

    marker = cache_folder() / "complete"
    if not JIT or marker.exists():
        return
    progress("compiling the datapath (the first time only, about half a minute)")
    command = [sys.executable, "-m", "nicemu", "compile-datapath"]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode:
        raise NicemuError(f"the datapath does not compile: {finished.stderr[-2000:]}")
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()


def bring_up(
    topology: Path,
    *,
    fabric: str | None = None,
    pcap: Path | None = None,
    trace: Path | None = None,
    only: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> list[RunningNic]:
    """Start the NICs of a topology in the background and return when they serve."""
    instance = Instance.start(
        topology, fabric=fabric, pcap=pcap, trace=trace, only=only, attached=False, progress=progress
    )
    return instance.detach()
