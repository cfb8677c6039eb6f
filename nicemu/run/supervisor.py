# SPDX-License-Identifier: Apache-2.0
"""Starts the NIC processes of a topology, or those of them that are missing, and stops them."""

from __future__ import annotations

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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nicemu.clock import PATIENCE
from nicemu.errors import NicemuError, UsageError

from .compiled_datapath import compile_datapath
from .fabrics import is_interface, makes_interface, transport_of
from .folders import ATTACHED, claim, discard, held_in, hold_settings, remove_abandoned, runtime_root
from .running import STOP_TIMEOUT_S, RunningNic, ask, nics_of
from .state import NicState, TopologyState
from .topology import NicEntry, Topology, check_fabric, find_profile, load_topology, read_key
from .trace import check_recordings, merge_traces

START_TIMEOUT_S = 180.0 * PATIENCE
CLAIM_PATIENCE_S = 0.5
MAX_SOCKET_PATH_BYTES = 107
_detached: list[subprocess.Popen[bytes]] = []
"""Processes that were left running; should one end before this process does, the next `detach` reaps it."""


def data_folder(topology: str) -> Path:
    """Return where a topology's namespace files lie by default."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "nicemu" / topology


@dataclass(frozen=True, slots=True)
class _Terms:
    """What all NICs of a running topology have to agree on, and where their files lie."""

    fabric: str
    ips: dict[str, str]
    key: bytes
    data: Path
    pcap: Path | None
    trace: Path | None


class Instance:
    """NICs of a running topology: its folder, lock, and processes. Use `start`, then `stop`."""

    def __init__(self, topology: Topology, folder: Path, lock: int) -> None:
        self.topology = topology
        self.folder = folder
        self.fabric = topology.fabric
        self.nics: list[RunningNic] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.trace: Path | None = None
        self._lock: int | None = lock
        self._lifeline: int | None = None
        self._is_joined = False
        self._others: tuple[NicState, ...] = ()
        self._check_races = False
        self._profile = topology.profile

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.stop()
        except NicemuError as error:
            if not isinstance(exception[1], BaseException):
                raise
            exception[1].add_note(str(error))

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
        check_races: bool = False,
        profile: str | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> Instance:
        """Start every NIC of a topology, or `only` those that run on this machine, and wait until all serve.

        `attached`: the NICs end when this process does, however it ends. Where NICs of a topology that is not
        attached run already, those are started that are missing. `data` holds namespace files. `check_races`:
        NICs and the processes that open them leave logs in the folder. `profile`: what the NICs' blocks cost,
        instead of the topology's.
        Raises: UsageError for what is wrong with the topology, NicemuError for a NIC that cannot start; then
        none that this has started is left running.
        """
        topology = load_topology(path)
        if fabric is not None:
            transport_of(fabric)
        known = [entry.name for entry in topology.nics]
        for nic in only:
            if nic not in known:
                raise UsageError(f"{topology.path} has no NIC {nic!r}; it has {', '.join(known)}")
        _check_memory(topology, only or known)
        pcap = pcap.resolve() if pcap is not None else None
        trace = trace.resolve() if trace is not None else None
        check_recordings(pcap, trace)
        remove_abandoned()
        folder = runtime_root() / (name or topology.name)
        _check_length(folder, topology)
        lock = claim(folder, CLAIM_PATIENCE_S)
        if lock is None:
            raise _up_already(folder)
        instance = cls(topology, folder, lock)
        instance._check_races = check_races
        if profile is not None:
            instance._profile = find_profile(profile)
        try:
            if held := held_in(folder):
                terms, names = instance._join(held, attached, only, fabric, pcap, trace)
            else:
                instance._begin(attached)
                terms = instance._terms(fabric, pcap, trace, data, bool(only), progress)
                names = list(only or known)
            instance._launch(terms, names, progress)
        except BaseException as error:
            try:
                instance.stop()
            except NicemuError as more:
                error.add_note(str(more))
            raise
        return instance

    def _begin(self, attached: bool) -> None:
        """Make the folder anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        if attached:
            (self.folder / ATTACHED).touch()

    def _terms(
        self,
        fabric: str | None,
        pcap: Path | None,
        trace: Path | None,
        data: Path | None,
        is_part: bool,
        progress: Callable[[str], None],
    ) -> _Terms:
        """Choose what the NICs of a topology that is not up will agree on."""
        topology, fabric = self.topology, fabric or self.topology.fabric
        if is_part and not topology.is_spread:
            raise UsageError(f"{topology.path}: NICs that run apart need an address each")
        if fabric == "direct" and (pcap is not None or topology.faults):
            fabric = "udp"
            what = "captures" if pcap is not None else "faults"
            progress(f"{what} need frames: RDMA goes over UDP instead of direct copies")
        if transport_of(fabric) == "verbs" and (pcap is not None or topology.faults):
            raise UsageError(
                f"over {fabric} the kernel makes the frames: no captures and no faults of ours; tcpdump and "
                "tc (netem) work on the device's interface"
            )
        check_fabric(topology, fabric)
        if topology.is_spread:
            ips = {nic.name: str(nic.address) for nic in topology.nics}
        else:
            subnet = _free_subnet(len(topology.nics))
            ips = {nic.name: f"{subnet}.{number + 1}" for number, nic in enumerate(topology.nics)}
        key = read_key(topology.key_file) if topology.key_file else secrets.token_bytes(32)
        files = (data or data_folder(topology.name)).resolve()
        files.mkdir(parents=True, exist_ok=True)
        return _Terms(fabric, ips, key, files, pcap, trace)

    def _join(
        self,
        held: set[str],
        attached: bool,
        only: Sequence[str],
        fabric: str | None,
        pcap: Path | None,
        trace: Path | None,
    ) -> tuple[_Terms, list[str]]:
        """Join the NICs that run; return what they agree on, and the names of those that are missing."""
        self._is_joined = True
        topology, state = self.topology, TopologyState.read(self.folder)
        nics = () if state is None else state.nics
        missing = [name for name in only or [nic.name for nic in nics] if name not in held]
        if state is None or not missing or attached or (self.folder / ATTACHED).exists():
            raise _up_already(self.folder)
        if fabric not in (None, state.fabric) or pcap is not None or trace is not None:
            raise UsageError(
                f"topology {self.folder.name} is up over {state.fabric}; what is started again joins it as"
                " it is: leave out --fabric, --pcap and --trace, or stop it first with `nicemu down`"
            )
        settings = json.loads((self.folder / f"{min(held)}.json").read_text(encoding="utf-8"))
        ips: dict[str, str] = settings["places"]
        self._check_races = bool(settings.get("check_races"))
        self._profile = settings.get("profile")
        entries = [nic for nic in topology.nics if nic.name in missing]
        if any(name not in ips for nic in entries for name in (nic.name, *nic.peers)):
            raise UsageError(
                f"{topology.path} has other NICs since {self.folder.name} was started, which knows"
                f" {', '.join(ips)}; stop it first with `nicemu down`"
            )
        self._others = tuple(nic for nic in nics if nic.name not in missing)
        recordings = (Path(path) if path else None for path in (state.pcap, state.trace))
        terms = _Terms(state.fabric, ips, bytes.fromhex(settings["key"]), Path(state.data), *recordings)
        return terms, missing

    def _launch(self, terms: _Terms, names: Sequence[str], progress: Callable[[str], None]) -> None:
        """Start NICs, wait until they serve, and put it down in the folder."""
        self.fabric, self.trace = terms.fabric, terms.trace
        entries = [nic for nic in self.topology.nics if nic.name in names]
        _check_interfaces(self.topology, entries, terms.fabric)
        compile_datapath(progress)
        lifeline = os.pipe()
        self._lifeline = lifeline[1]
        ends = {nic.name: nic.fabric or terms.fabric for nic in entries}
        makers = [nic for nic in entries if makes_interface(ends, nic.name)]
        try:
            for nic in sorted(entries, key=lambda nic: nic not in makers):
                if nic not in makers:
                    for maker in makers:
                        self._await_file(maker.name, "sock")  # it is there when the NIC's ports are
                settings = {**self._settings(nic, terms), "lifeline": lifeline[0]}
                self._spawn(nic.name, settings, lifeline[0])
        finally:
            os.close(lifeline[0])
        started = []
        for nic in entries:
            ip = terms.ips[nic.name]
            started.append(NicState(nic.name, self._await(nic.name), ip, str(nic.p4), str(nic.firmware)))
            progress(f"{nic.name} serves at {ip}")
        state = TopologyState(
            self.topology.name,
            terms.fabric,
            str(terms.data),
            str(terms.pcap) if terms.pcap else None,
            str(terms.trace) if terms.trace else None,
            (*self._others, *started),
        )
        state.write(self.folder)
        self.nics = [nic for nic in nics_of(self.folder) if nic.name in names]

    def _settings(self, nic: NicEntry, terms: _Terms) -> dict[str, Any]:
        spaces = []
        for space in nic.namespaces:
            path = terms.data / space.path
            if space.create and not path.exists():
                from .block_io import create_namespace_file

                create_namespace_file(path, space.size_bytes)
            entry = {"nsid": space.nsid, "block_count": space.size_bytes // 4096, "path": str(path)}
            spaces.append(entry)
        return {
            "nic": {
                "name": nic.name,
                "ip": terms.ips[nic.name],
                "number": list(terms.ips).index(nic.name),
                "memory_bytes": nic.memory_bytes,
                "limits": nic.limits,
                "transport": transport_of(terms.fabric),
                "path_mtu": self.topology.path_mtu,
                "selective_retransmission": self.topology.selective_retransmission,
                "congestion_control": self.topology.congestion_control,
                "roce_ips": self._roce_ips(terms),
                "spin_us": nic.spin_us,
                "nap_us": nic.nap_us,
                "seed": random.SystemRandom().getrandbits(63),
            },
            "namespaces": spaces,
            "controller": nic.controller,
            "folder": str(self.folder),
            "status": str(self.folder / f"{nic.name}.status"),
            "fabric": nic.fabric or terms.fabric if is_interface(terms.fabric) else terms.fabric,
            "calls_over_tcp": terms.fabric == "udp" or self.topology.is_spread,
            "faults": self.topology.faults,
            "pcap": str(terms.pcap) if terms.pcap else None,
            "trace": str(terms.trace) if terms.trace else None,
            "peers": {peer: terms.ips[peer] for peer in nic.peers},
            "places": terms.ips,
            "key": terms.key.hex(),
            "check_races": self._check_races,
            "profile": self._profile,
            "p4": str(nic.p4),
            "include": [str(place) for place in nic.include_paths],
            "define": dict(nic.defines),
            "firmware": str(nic.firmware),
            "p4runtime": nic.p4runtime,
        }

    def _roce_ips(self, terms: _Terms) -> dict[str, str]:
        """Return the addresses that NICs have as RDMA peers, by those that they are reached at."""
        if not is_interface(terms.fabric):
            return {}
        return {str(nic.address): str(nic.roce_address) for nic in self.topology.nics}

    def _spawn(self, name: str, settings: dict[str, Any], lifeline: int) -> None:
        path = self.folder / f"{name}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(settings), encoding="utf-8")
        for left in ("status", "sock", "p4rt"):  # of the process before
            path.with_suffix(f".{left}").unlink(missing_ok=True)
        held = hold_settings(path)
        try:
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "nicemu", "nic-process", str(path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lifeline, held),
                    start_new_session=True,
                )
        finally:
            os.close(held)

    def _await_file(self, name: str, suffix: str) -> None:
        """Wait until a NIC has made one of its files, or serves. Raises: NicemuError if it cannot start."""
        status = self.folder / f"{name}.status"
        awaited = status.with_suffix(f".{suffix}")
        process = self.processes[name]
        deadline = time.monotonic() + START_TIMEOUT_S
        while not awaited.exists() and not status.exists():
            if process.poll() is not None and not status.exists():
                log = (self.folder / f"{name}.log").read_text(errors="replace").strip()
                raise NicemuError(f"{name} ended with status {process.returncode}: {log[-2000:]}")
            if time.monotonic() > deadline:
                raise NicemuError(f"{name} did not serve within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.005)
        if status.exists() and not (told := json.loads(status.read_text(encoding="utf-8")))["ready"]:
            raise NicemuError(f"{name} cannot start: {told['error']}")

    def _await(self, name: str) -> int:
        self._await_file(name, "status")
        return int(json.loads((self.folder / f"{name}.status").read_text(encoding="utf-8"))["pid"])

    def detach(self) -> list[RunningNic]:
        """Leave the NICs running without this process."""
        for nic in self.nics:
            ask(nic, "detach")
        self._drop_lifeline()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _detached[:] = [process for process in _detached if process.poll() is None]
        _detached.extend(self.processes.values())
        return self.nics

    def _drop_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def stop(self) -> None:
        """Stop every NIC that this has started, and remove what only a running topology needs.

        Raises: NicemuError, after all that, for a trace that could not be put together.
        """
        if self._lock is None:
            return
        self._drop_lifeline()
        for process in self.processes.values():
            process.terminate()
        deadline = time.monotonic() + (STOP_TIMEOUT_S if self.nics else 1.0)
        for process in self.processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        lock, self._lock = self._lock, None
        if self._is_joined:
            os.close(lock)
            return
        try:
            if self.trace is not None and self.processes:
                merge_traces(self.trace)
        finally:
            discard(self.folder, lock)


def _up_already(folder: Path) -> UsageError:
    return UsageError(f"topology {folder.name} is up already; stop it with `nicemu down`")


def _check_memory(topology: Topology, names: Sequence[str]) -> None:
    """Refuse a NIC with more memory than this machine has."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for nic in topology.nics:
        if nic.name in names and nic.memory_bytes > installed:
            raise UsageError(
                f"{topology.path}: nic.{nic.name}.memory is {nic.memory_bytes} bytes; this machine has"
                f" {installed}"
            )


def _check_interfaces(topology: Topology, entries: Sequence[NicEntry], fabric: str) -> None:
    """Refuse two NICs of this machine on one interface."""
    if not is_interface(fabric):
        return
    users: dict[str, str] = {}
    for nic in entries:
        used = nic.fabric or fabric
        other = users.setdefault(used, nic.name)
        if other != nic.name:
            raise UsageError(
                f"{topology.path}: {other} and {nic.name} are both on {used}; what a NIC sends through an"
                f" interface does not come back from it, so give each of them one (nic.{nic.name}.fabric)"
            )


def _check_length(folder: Path, topology: Topology) -> None:
    """Refuse a folder whose sockets' paths no socket address holds. Source: unix(7), "Address format"."""
    longest = max(len(os.fsencode(folder / f"{nic.name}.sock")) for nic in topology.nics)
    if longest > MAX_SOCKET_PATH_BYTES:
        raise UsageError(
            f"the sockets of {topology.name} would have paths of {longest} bytes, {MAX_SOCKET_PATH_BYTES}"
            f" are possible; set XDG_RUNTIME_DIR to a shorter path than {folder.parent.parent}"
        )


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


def bring_up(
    topology: Path,
    *,
    fabric: str | None = None,
    pcap: Path | None = None,
    trace: Path | None = None,
    only: Sequence[str] = (),
    check_races: bool = False,
    profile: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> list[RunningNic]:
    """Start the NICs of a topology that do not run, in the background; return them when they serve."""
    instance = Instance.start(
        topology,
        fabric=fabric,
        pcap=pcap,
        trace=trace,
        only=only,
        attached=False,
        check_races=check_races,
        profile=profile,
        progress=progress,
    )
    try:
        return instance.detach()
    except BaseException:
        with suppress(NicemuError):
            instance.stop()
        raise
