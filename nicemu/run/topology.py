# SPDX-License-Identifier: Apache-2.0
"""A topology file (TOML): which NICs there are, what they run, and what lies under their namespaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Any

from nicemu.abi import PROFILES
from nicemu.arguments import read_toml
from nicemu.control import checked_address
from nicemu.errors import UsageError
from nicemu.model import PROFILES as HARDWARE
from nicemu.model import read_profile
from nicemu.programs import find_program

from .fabrics import interface_of, is_interface, is_on_machine, transport_of

MIN_KEY_BYTES = 16
MIN_MEMORY_BYTES = 1 << 20
BROADCAST_NSID = 0xFFFF_FFFF
"""Source: NVM Express Base Specification 2.0, "Namespace Identifier (NSID)"."""
CONTROLLERS = ("nicemu", "qemu")
"""What holds a NIC's namespaces: its own model of a controller, or QEMU's on a PCIe fabric."""
_NIC_KEYS = {"p4", "firmware", "peers", "namespace", "memory", "spin_us", "nap_us", "address", "limits"}
_NIC_KEYS |= {"controller", "fabric", "roce_address", "p4runtime", "include", "define"}
_SWITCHES = ("selective_retransmission", "congestion_control")
_KEYS = {"name", "fabric", "nic", "faults", "key_file", "path_mtu", "profile", *_SWITCHES}
PATH_MTUS = (256, 512, 1024, 2048, 4096)
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNIT = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class NamespaceEntry:
    """A namespace of a NIC: the file under it, relative to the topology's data folder unless absolute."""

    nsid: int
    path: str
    size_bytes: int
    create: bool


@dataclass(frozen=True, slots=True)
class NicEntry:
    """One NIC of a topology. `address`: where it is reached, if that is not to be found on loopback;
    `controller`: one of `CONTROLLERS`. Where RDMA goes through an interface, `roce_address` is the NIC's own
    there, and `fabric` the interface, if it is not the topology's. `p4runtime`: where its controllers find it
    besides the socket file that each NIC has. `include_paths` and `defines` are for its P4 program.
    """

    name: str
    p4: Path
    firmware: Path
    peers: tuple[str, ...]
    namespaces: tuple[NamespaceEntry, ...]
    memory_bytes: int
    spin_us: int
    nap_us: int
    address: str | None
    limits: str
    controller: str = "nicemu"
    fabric: str | None = None
    roce_address: str | None = None
    p4runtime: str | None = None
    include_paths: tuple[Path, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology file, checked. `key_file` holds what its NICs prove to each other that they know; `profile`
    says what their blocks cost.
    """

    name: str
    path: Path
    fabric: str
    nics: tuple[NicEntry, ...]
    faults: dict[str, float]
    key_file: Path | None = None
    path_mtu: int = 4096
    selective_retransmission: bool = False
    congestion_control: bool = False
    profile: str | None = None

    @property
    def is_spread(self) -> bool:
        """Whether the NICs have addresses of their own, so that they may run on several machines."""
        return any(nic.address is not None for nic in self.nics)


def parse_size(value: object, where: str) -> int:
    """Return bytes for a number, or a text such as "64 MiB". Raises: UsageError."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise UsageError(f'{where} is {value!r}; write bytes, or a text such as "64 MiB"')
    return int(match[1]) * _UNIT[match[2]]


def load_topology(path: str | Path) -> Topology:
    """Read and check a topology file.

    Raises: UsageError that names the file and the key for anything wrong with it.
    """
    place = find_program(path)
    data = read_toml(place)
    _only(data, _KEYS, str(place))
    fabric = data.get("fabric", "direct")
    transport_of(fabric, f"{place}: ")
    nics = data.get("nic")
    if not isinstance(nics, dict) or not nics:
        raise UsageError(f"{place}: there is no [nic.NAME] table")
    entries = tuple(
        _nic(name, table, f"{place}: nic.{name}", set(nics), place.parent) for name, table in nics.items()
    )
    name = data.get("name", place.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", name):
        raise UsageError(f"{place}: name {name!r} is no word of up to 40 letters, digits, _ . -")
    faults = _faults(data.get("faults", {}), f"{place}: faults")
    key_file = data.get("key_file")
    if key_file is not None and not isinstance(key_file, str):
        raise UsageError(f"{place}: key_file must name a file")
    path_mtu = data.get("path_mtu", PATH_MTUS[-1])
    if path_mtu not in PATH_MTUS:
        raise UsageError(f"{place}: path_mtu {path_mtu!r} is none of {', '.join(map(str, PATH_MTUS))}")
    switches = [data.get(key, False) for key in _SWITCHES]
    for key, given in zip(_SWITCHES, switches, strict=True):
        if not isinstance(given, bool):
            raise UsageError(f"{place}: {key} is {given!r}; true or false was expected")
    key_path = place.parent / key_file if key_file is not None else None
    profile = _profile(data.get("profile"), place)
    topology = Topology(
        name, place, fabric, entries, faults, key_path, path_mtu, switches[0], switches[1], profile
    )
    _check_addresses(topology)
    _check_servers(topology)
    check_fabric(topology, fabric)
    return topology


def _profile(given: object, place: Path) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise UsageError(f"{place}: profile is {given!r}; {', '.join(HARDWARE)} or a TOML file were expected")
    try:
        return find_profile(given, place.parent)
    except UsageError as error:
        raise UsageError(f"{place}: profile: {error}") from error


def find_profile(name: str, folder: Path = Path()) -> str:
    """Return a profile's name, or its file's whole path, beside `folder` unless absolute, once it is read.

    Raises: UsageError as `read_profile`.
    """
    found = name if name in HARDWARE else str((folder / name).resolve())
    read_profile(found)
    return found


def check_fabric(topology: Topology, fabric: str) -> None:
    """Refuse a fabric that cannot join the NICs of a topology. Raises: UsageError."""
    transport_of(fabric)
    if topology.is_spread and is_on_machine(fabric):
        raise UsageError(
            f'{topology.path}: NICs with addresses are joined by fabric = "udp", "packet:INTERFACE", '
            '"tap:NAME" or "verbs:DEVICE"'
        )
    if is_interface(fabric):
        _check_interfaces(topology, fabric)
        return
    for nic in topology.nics:
        if nic.fabric is not None and not is_interface(topology.fabric):
            raise UsageError(
                f"{topology.path}: nic.{nic.name}.fabric is {nic.fabric!r}; a NIC has one of its own where "
                "the topology's is packet:INTERFACE, xdp:INTERFACE or tap:NAME"
            )


def _check_interfaces(topology: Topology, fabric: str) -> None:
    """Refuse NICs that cannot find each other through interfaces. Raises: UsageError."""
    where, seen = str(topology.path), {nic.address for nic in topology.nics}
    for nic in topology.nics:
        if nic.address is None or nic.roce_address is None:
            raise UsageError(
                f"{where}: over {fabric} nic.{nic.name} needs address (this machine's, for the control "
                "channel) and roce_address (the NIC's own, which no interface has)"
            )
        if nic.roce_address in seen:
            raise UsageError(
                f"{where}: nic.{nic.name}.roce_address {nic.roce_address} is taken; each NIC has one of its "
                "own, which is no machine's"
            )
        seen.add(nic.roce_address)


def _check_addresses(topology: Topology) -> None:
    """Refuse addresses that cannot work. Raises: UsageError."""
    if not topology.is_spread:
        return
    addresses = [nic.address for nic in topology.nics]
    where = str(topology.path)
    if None in addresses:
        raise UsageError(f"{where}: nic.{topology.nics[addresses.index(None)].name} needs an address, too")
    if len(set(addresses)) < len(addresses):
        raise UsageError(f"{where}: two NICs have the same address")
    loopback = all(ip_address(str(address)).is_loopback for address in addresses)
    if not loopback and topology.key_file is None:
        raise UsageError(
            f"{where}: its NICs are reached over a network; name a key_file, the same on every machine "
            "(head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE)"
        )


def _check_servers(topology: Topology) -> None:
    """Refuse P4Runtime servers at one address. Raises: UsageError."""
    seen: dict[str, str] = {}
    for nic in topology.nics:
        if nic.p4runtime is not None and seen.setdefault(nic.p4runtime, nic.name) != nic.name:
            raise UsageError(
                f"{topology.path}: nic.{nic.name}.p4runtime {nic.p4runtime} is nic.{seen[nic.p4runtime]}'s"
            )


def _nic_fabric(table: dict[str, Any], where: str) -> str | None:
    fabric = table.get("fabric")
    if fabric is None:
        return None
    if not isinstance(fabric, str) or not is_interface(fabric) or not interface_of(fabric):
        raise UsageError(f"{where}.fabric is {fabric!r}; a NIC's own is packet:, xdp:INTERFACE or tap:NAME")
    return fabric


def _address(table: dict[str, Any], where: str, key: str = "address") -> str | None:
    address = table.get(key)
    if address is None:
        return None
    try:
        found = IPv4Address(address)
    except ValueError as error:
        raise UsageError(f"{where}.{key} is {address!r}; it must be an IPv4 address") from error
    is_one = not (found.is_unspecified or found.is_multicast or found == IPv4Address("255.255.255.255"))
    if not is_one or not isinstance(address, str):
        raise UsageError(f"{where}.{key} is {address!r}; it must be the address of one machine")
    return str(found)


def _limits(table: dict[str, Any], where: str) -> str:
    profile = table.get("limits", "unlimited")
    if profile not in PROFILES:
        raise UsageError(f"{where}.limits is {profile!r}; there are {', '.join(PROFILES)}")
    return str(profile)


def _p4runtime(table: dict[str, Any], where: str) -> str | None:
    address = table.get("p4runtime")
    if address is None:
        return None
    if not isinstance(address, str):
        raise UsageError(f'{where}.p4runtime is {address!r}; HOST:PORT was expected, as "127.0.0.1:9559"')
    try:
        checked = checked_address(address)
    except UsageError as error:
        raise UsageError(f"{where}.p4runtime: {error}") from None
    if address.startswith("unix:") or address.rpartition(":")[2].strip("0") == "":
        raise UsageError(f"{where}.p4runtime is {address}; a NIC has a socket file already: name a TCP port")
    return checked


def _controller(table: dict[str, Any], memory_bytes: int, where: str) -> str:
    controller = table.get("controller", "nicemu")
    if controller not in CONTROLLERS:
        raise UsageError(f"{where}.controller is {controller!r}; there are {', '.join(CONTROLLERS)}")
    if controller == "qemu" and memory_bytes & (memory_bytes - 1):
        raise UsageError(
            f"{where}.memory is {memory_bytes} bytes; with a controller on a PCIe fabric it is a BAR, whose "
            "length is a power of two"
        )
    return str(controller)


def read_key(path: Path) -> bytes:
    """Return the key that a topology's NICs share.

    Raises: UsageError if the file is missing, open to others or short.
    """
    try:
        mode, key = path.stat().st_mode, path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"key_file {path}: {error.strerror}") from error
    if mode & 0o077:
        raise UsageError(f"key_file {path} is open to others; chmod 600 {path}")
    if len(key) < MIN_KEY_BYTES:
        raise UsageError(f"key_file {path} holds {len(key)} bytes; a key has at least {MIN_KEY_BYTES}")
    return key


def _faults(table: Any, where: str) -> dict[str, float]:  # noqa: ANN401 - TOML
    _only(table, {"loss", "duplication", "reordering", "corruption", "seed"}, where)
    for key, value in table.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (key != "seed" and not 0 <= value <= 1):
            raise UsageError(
                f"{where}.{key} is {value!r}; a rate is a number from 0 to 1, the seed any number"
            )
    return {key: float(value) for key, value in table.items()}


def _only(table: object, known: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table")
    unknown = sorted(set(table) - known)
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _number(table: dict[str, Any], key: str, default: int, where: str) -> int:
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{where}.{key} is {value!r}; it must be a number of microseconds, 0 or more")
    return value


def _nic(name: str, table: Any, where: str, names: set[str], folder: Path) -> NicEntry:  # noqa: ANN401 - TOML
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,39}", name):
        raise UsageError(f"{where}: a NIC's name is a word of up to 40 letters, digits, _ -")
    _only(table, _NIC_KEYS, where)
    for key in ("p4", "firmware"):
        if not isinstance(table.get(key), str):
            raise UsageError(f"{where}.{key} must name a file")
    peers = table.get("peers", [])
    if not isinstance(peers, list):
        raise UsageError(f'{where}.peers is {peers!r}; it must be a list of names, such as ["storage0"]')
    for peer in peers:
        if not isinstance(peer, str) or peer not in names or peer == name:
            raise UsageError(
                f"{where}.peers names {peer!r}; the other NICs are {', '.join(sorted(names - {name}))}"
            )
    spaces = table.get("namespace", [])
    if not isinstance(spaces, list):
        raise UsageError(f"{where}: write [[nic.{name}.namespace]]")
    namespaces = tuple(
        _namespace(space, f"{where}.namespace[{position}]") for position, space in enumerate(spaces)
    )
    nsids = [space.nsid for space in namespaces]
    for nsid in nsids:
        if nsids.count(nsid) > 1:
            raise UsageError(f"{where} has {nsids.count(nsid)} namespaces with nsid {nsid}; each has its own")
    memory_bytes = parse_size(table.get("memory", "64 MiB"), f"{where}.memory")
    if memory_bytes < MIN_MEMORY_BYTES:
        raise UsageError(f"{where}.memory is {memory_bytes} bytes; it must be {MIN_MEMORY_BYTES} or more")
    return NicEntry(
        name,
        find_program(table["p4"], folder),
        find_program(table["firmware"], folder),
        tuple(peers),
        namespaces,
        memory_bytes,
        _number(table, "spin_us", 50, where),
        _number(table, "nap_us", 200, where),
        _address(table, where),
        _limits(table, where),
        _controller(table, memory_bytes, where),
        _nic_fabric(table, where),
        _address(table, where, "roce_address"),
        _p4runtime(table, where),
        _include_paths(table, where, folder),
        _defines(table, where),
    )


def _include_paths(table: dict[str, Any], where: str, folder: Path) -> tuple[Path, ...]:
    """Return the folders of a program's includes, beside the topology unless absolute."""
    given = table.get("include", [])
    if not isinstance(given, list) or not all(isinstance(place, str) for place in given):
        raise UsageError(f'{where}.include is {given!r}; a list of folders was expected, such as ["include"]')
    found = tuple((folder / place).resolve() for place in given)
    for place in found:
        if not place.is_dir():
            raise UsageError(f"{where}.include: there is no folder {place}")
    return found


def _defines(table: dict[str, Any], where: str) -> dict[str, str]:
    """Return the macros of a program and what they stand for."""
    given = table.get("define", {})
    if not isinstance(given, dict):
        raise UsageError(f"{where}.define is {given!r}; a table was expected, such as {{ LANES = 4 }}")
    for name, text in given.items():
        if isinstance(text, bool) or not isinstance(text, str | int):
            raise UsageError(f"{where}.define.{name} is {text!r}; a text or a number was expected")
    return {name: str(text) for name, text in given.items()}


def _namespace(table: Any, where: str) -> NamespaceEntry:  # noqa: ANN401 - TOML
    _only(table, {"nsid", "path", "size", "create"}, where)
    nsid, path, create = table.get("nsid"), table.get("path"), table.get("create", False)
    if not isinstance(path, str) or not isinstance(nsid, int) or isinstance(nsid, bool):
        raise UsageError(f"{where} needs nsid (a number) and path (a file)")
    if not 0 < nsid < BROADCAST_NSID:
        raise UsageError(f"{where}.nsid is {nsid}; a namespace's number is 1 or more")
    if not isinstance(create, bool):
        raise UsageError(f"{where}.create is {create!r}; it must be true or false")
    size_bytes = parse_size(table.get("size"), f"{where}.size")
    if size_bytes % 4096:
        raise UsageError(f"{where}.size is {size_bytes} bytes; it must be whole blocks of 4096")
    return NamespaceEntry(nsid, path, size_bytes, create)
