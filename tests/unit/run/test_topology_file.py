# SPDX-License-Identifier: Apache-2.0
"""Topology files: what a good one says, and that anything wrong with one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.run import load_topology
from nicemu.run.topology import Topology, read_key

GOOD = """
name = "one"
fabric = "udp"

[faults]
loss = 0.5
seed = 3

[nic.a]
p4 = "p4/kvserve.p4"
firmware = "firmware/kv_storage.py"
memory = "2 MiB"
peers = ["b"]

[[nic.a.namespace]]
nsid = 1
path = "a.nvme"
size = "8 KiB"

[nic.b]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
"""
SECOND = '[[nic.a.namespace]]\nnsid = 1\npath = "b.nvme"\nsize = "8 KiB"\n'
PROGRAMS = 'p4 = "p4/kvserve.p4"\nfirmware = "firmware/kv_storage.py"\n'


def load(tmp_path: Path, text: str) -> Topology:
    path = tmp_path / "topology.toml"
    path.write_text(text)
    return load_topology(path)


def test_a_topology_says_what_runs_where() -> None:
    topology = load_topology("examples/two_storage_nodes.toml")
    assert [nic.name for nic in topology.nics] == ["compute0", "storage0", "storage1"]
    assert topology.nics[0].peers == ("storage0", "storage1")
    (space,) = topology.nics[1].namespaces
    assert (space.nsid, space.size_bytes, space.create) == (1, 64 << 20, True)
    assert topology.nics[1].p4.name == "kvserve.p4"


def test_sizes_and_faults_are_read(tmp_path: Path) -> None:
    topology = load(tmp_path, GOOD)
    assert topology.nics[0].memory_bytes == 2 << 20
    assert topology.faults == {"loss": 0.5, "seed": 3.0}


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('name = "one"', 'name = ".."', "name '..' is no word"),
        ('name = "one"', 'name = "."', "name '.' is no word"),
        ('name = "one"', 'name = "a/b"', "name 'a/b' is no word"),
        ('name = "one"', "name = 5", "name 5 is no word"),
        ("[nic.b]", f'[nic."../c"]\n{PROGRAMS}\n[nic.b]', r"nic.\.\./c: a NIC's name is a word"),
        ('fabric = "udp"', 'fabric = "token ring"', "none of direct, udp, shm"),
        ("loss = 0.5", "loss = 5", "faults.loss is 5; a rate is a number from 0 to 1"),
        ("loss = 0.5", 'loss = "much"', "faults.loss is 'much'"),
        ("loss = 0.5", "lost = 0.5", "unknown key 'lost'"),
        ('peers = ["b"]', 'include = "inc"', "nic.a.include is 'inc'; a list of folders"),
        ('peers = ["b"]', 'include = ["nowhere"]', r"nic.a.include: there is no folder .*nowhere"),
        ('peers = ["b"]', 'define = ["A"]', r"nic.a.define is \['A'\]; a table was expected"),
        ('peers = ["b"]', "define = { A = true }", "nic.a.define.A is True; a text or a number"),
        ('peers = ["b"]', 'peers = ["c"]', "peers names 'c'; the other NICs are b"),
        ('peers = ["b"]', 'peers = ["a"]', "peers names 'a'"),
        ('peers = ["b"]', "peers = [{}]", "peers names {}"),
        ('peers = ["b"]', 'peers = "b"', "nic.a.peers is 'b'; it must be a list of names"),
        (
            'memory = "2 MiB"',
            'memory = "512 KiB"',
            "nic.a.memory is 524288 bytes; it must be 1048576 or more",
        ),
        ('memory = "2 MiB"', 'memory = "2 MB"', "memory is '2 MB'"),
        ('memory = "2 MiB"', "spin_us = -1", "spin_us is -1"),
        ('memory = "2 MiB"', "p4runtime = 9559", "nic.a.p4runtime is 9559; HOST:PORT was expected"),
        ('memory = "2 MiB"', 'p4runtime = "here"', "nic.a.p4runtime: address 'here' found"),
        ('memory = "2 MiB"', 'p4runtime = "127.0.0.1:0"', "name a TCP port"),
        ('memory = "2 MiB"', 'p4runtime = "unix:/x"', "a NIC has a socket file already"),
        ('memory = "2 MiB"', 'p4runtime = "192.0.2.1:9559"', "can be reached from other machines"),
        ('p4 = "p4/kvmatch.p4"', "p4 = 1", "p4 must name a file"),
        ('p4 = "p4/kvmatch.p4"', 'p4 = "p4/none.p4"', "no file p4/none.p4 in "),
        ('size = "8 KiB"', "size = 5000", "whole blocks of 4096"),
        ('size = "8 KiB"', "", "size is None"),
        ("nsid = 1", 'nsid = "one"', "needs nsid"),
        ("nsid = 1", "nsid = true", "needs nsid"),
        ("nsid = 1", "nsid = 0", r"namespace\[0\].nsid is 0; a namespace's number is 1 or more"),
        ("nsid = 1", "nsid = 0xFFFFFFFF", "nsid is 4294967295"),
        ("nsid = 1", "nsid = 1\ncreate = 1", r"namespace\[0\].create is 1; it must be true or false"),
        ("nsid = 1", 'nsid = 1\ncreate = "no"', "create is 'no'; it must be true or false"),
        ("[nic.b]", f"{SECOND}\n[nic.b]", "nic.a has 2 namespaces with nsid 1; each has its own"),
        ("[nic.b]", "[nic.b", "topology.toml"),
        (GOOD, "", r"there is no \[nic.NAME\] table"),
    ],
)
def test_what_is_wrong_with_a_topology_is_named(tmp_path: Path, good: str, bad: str, message: str) -> None:
    assert good in GOOD
    with pytest.raises(UsageError, match=message):
        load(tmp_path, GOOD.replace(good, bad))


SPREAD = f"""
fabric = "udp"
[nic.a]
{PROGRAMS}address = "%s"
[nic.b]
{PROGRAMS}address = "%s"
"""


def test_each_nic_has_a_p4runtime_server_of_its_own(tmp_path: Path) -> None:
    server = 'p4runtime = "127.0.0.1:9559"\n'
    text = f"[nic.a]\n{PROGRAMS}\n{server}[nic.b]\n{PROGRAMS}\n"
    assert [nic.p4runtime for nic in load(tmp_path, text).nics] == ["127.0.0.1:9559", None]
    with pytest.raises(UsageError, match=r"nic\.b\.p4runtime 127\.0\.0\.1:9559 is nic\.a's"):
        load(tmp_path, text + server)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SPREAD % ("127.0.0.1", "127.0.0.1"), "two NICs have the same address"),
        (SPREAD % ("192.0.2.1", "192.0.2.2"), "reached over a network; name a key_file"),
        (SPREAD % ("224.0.0.1", "127.0.0.1"), "must be the address of one machine"),
        (SPREAD % ("255.255.255.255", "127.0.0.1"), "must be the address of one machine"),
        (SPREAD % ("0.0.0.0", "127.0.0.1"), "must be the address of one machine"),
        (SPREAD % ("elsewhere", "127.0.0.1"), "must be an IPv4 address"),
        (SPREAD.replace('fabric = "udp"', "") % ("127.0.0.1", "127.0.0.2"), 'joined by fabric = "udp"'),
        (SPREAD.replace('address = "%s"\n', "", 1) % "127.0.0.2", "nic.a needs an address, too"),
        ("key_file = 3\n" + SPREAD % ("127.0.0.1", "127.0.0.2"), "key_file must name a file"),
    ],
)
def test_addresses_that_cannot_work_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load(tmp_path, text)


INTERFACES = f"""
fabric = "packet:eth1"
path_mtu = 1024
congestion_control = true
[nic.a]
{PROGRAMS}address = "127.0.0.1"
roce_address = "10.0.0.1"
[nic.b]
{PROGRAMS}address = "127.0.0.2"
roce_address = "10.0.0.2"
fabric = "tap:nic0"
"""


def test_nics_on_interfaces_have_an_address_of_their_own_there(tmp_path: Path) -> None:
    path = tmp_path / "topology.toml"
    path.write_text(INTERFACES)
    topology = load_topology(path)
    assert (topology.fabric, topology.path_mtu) == ("packet:eth1", 1024)
    assert (topology.selective_retransmission, topology.congestion_control) == (False, True)
    assert [nic.fabric for nic in topology.nics] == [None, "tap:nic0"]
    assert [nic.roce_address for nic in topology.nics] == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        (
            "packet:eth1",
            "packet:",
            "none of direct, udp, shm, verbs:DEVICE, packet:INTERFACE, xdp:INTERFACE, tap:NAME",
        ),
        ('roce_address = "10.0.0.2"\n', "", r"over packet:eth1 nic\.b needs address .* and roce_address"),
        ('"10.0.0.2"', '"10.0.0.1"', r"nic\.b\.roce_address 10\.0\.0\.1 is taken"),
        ('"10.0.0.2"', '"127.0.0.1"', r"nic\.b\.roce_address 127\.0\.0\.1 is taken"),
        (
            '"10.0.0.2"',
            '"224.0.0.1"',
            r"nic\.b\.roce_address is '224\.0\.0\.1'; it must be the address of one",
        ),
        ("tap:nic0", "udp", r"nic\.b\.fabric is 'udp'; a NIC's own is packet:, xdp:INTERFACE or tap:NAME"),
        ("tap:nic0", "tap:", r"nic\.b\.fabric is 'tap:'"),
        ("packet:eth1", "udp", r"nic\.b\.fabric is 'tap:nic0'; a NIC has one of its own where"),
        ("= true", "= 1", "congestion_control is 1; true or false was expected"),
        ("1024", "1500", "path_mtu 1500 is none of 256, 512, 1024, 2048, 4096"),
    ],
)
def test_nics_that_cannot_be_on_interfaces_are_named(
    tmp_path: Path, good: str, bad: str, sentence: str
) -> None:
    assert good in INTERFACES
    with pytest.raises(UsageError, match=sentence):
        load(tmp_path, INTERFACES.replace(good, bad))


def test_a_key_is_long_and_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    with pytest.raises(UsageError, match="No such file"):
        read_key(path)
    path.write_bytes(b"0123456789abcdef\n")
    path.chmod(0o644)
    with pytest.raises(UsageError, match="open to others; chmod 600"):
        read_key(path)
    path.chmod(0o600)
    assert read_key(path) == b"0123456789abcdef"
    path.write_bytes(b"short")
    with pytest.raises(UsageError, match="holds 5 bytes; a key has at least 16"):
        read_key(path)


def test_a_nic_has_the_limits_profile_that_the_topology_names(tmp_path: Path) -> None:
    limited = GOOD.replace('peers = ["b"]', 'peers = ["b"]\nlimits = "cassini"')
    topology = load(tmp_path, limited)
    assert [nic.limits for nic in topology.nics] == ["cassini", "unlimited"]
    with pytest.raises(
        UsageError, match=r"nic\.a\.limits is 'slingshot'; there are unlimited, portals, cassini"
    ):
        load(tmp_path, limited.replace("cassini", "slingshot"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            '"nowhere"',
            r"topology\.toml: profile: there is no profile .*nowhere; seed, physical or a TOML file",
        ),
        (
            '"h100_llama31_8b"',
            r"topology\.toml: profile: there is no profile .* \(h100_llama31_8b is a server\)",
        ),
        ("3", r"topology\.toml: profile is 3; seed, physical or a TOML file were expected"),
    ],
)
def test_a_profile_that_is_none_is_named_with_the_topology(tmp_path: Path, given: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        load(tmp_path, f"profile = {given}\n{GOOD}")


def test_programs_are_sought_beside_the_topology_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    for folder in (ours, elsewhere):
        folder.mkdir()
        (folder / "own.py").touch()
    (elsewhere / "only.p4").touch()
    monkeypatch.chdir(elsewhere)
    (ours / "topology.toml").write_text('[nic.one]\np4 = "only.p4"\nfirmware = "own.py"\n')
    (nic,) = load_topology(ours / "topology.toml").nics
    assert (nic.firmware, nic.p4) == (ours / "own.py", elsewhere / "only.p4")
