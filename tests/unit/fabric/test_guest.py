# SPDX-License-Identifier: Apache-2.0
"""What a guest is made of, without starting one: kernel, memory image, command line, packages."""

from __future__ import annotations

import gzip
import lzma
import socket
import struct
import sys
from pathlib import Path

import pytest

from nicemu.errors import ResourceError, UsageError
from nicemu.fabric import (
    PACKAGES,
    Guest,
    GuestLink,
    GuestTimeoutError,
    install_command,
    load_pyverbs,
    missing_packages,
    newest_kernel,
    rdma_devices,
    require_rdma_device,
)
from nicemu.fabric.guest import initramfs as guest_initramfs
from nicemu.fabric.guest import kernel as guest_kernel
from nicemu.fabric.guest import machine as guest_machine
from nicemu.fabric.guest import packages as guest_packages
from nicemu.fabric.guest import rxe as guest_rxe
from nicemu.fabric.guest.agent import frame, packed_order, take_frame, unpacked_order
from nicemu.fabric.guest.channel import Channel
from nicemu.fabric.guest.initramfs import Entry, init_script, newc
from nicemu.fabric.guest.kernel import Kernel, bootable, has_pvh_entry, is_static, modules_in_order
from nicemu.fabric.guest.machine import Descriptors, mac_of, qemu_command
from nicemu.fabric.guest.rxe import links_script, rxe_script
from nicemu.fabric.verbs import library as verbs_library

RXE = "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"


def install(folder: Path, release: str, *, rxe: bool = True, image: bool = True) -> None:
    """Put a kernel below a folder, in boot/ and modules/."""
    module = folder / "modules" / release / RXE
    module.parent.mkdir(parents=True)
    (folder / "boot").mkdir(exist_ok=True)
    if rxe:
        module.touch()
    if image:
        (folder / "boot" / f"vmlinuz-{release}").touch()


def elf(kind: int, content: bytes) -> bytes:
    """Return a 64-bit ELF file with one segment."""
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, 1)
    return bytes(head) + struct.pack("<IIQQQQQQ", kind, 0, 120, 0, 0, len(content), 0, 0) + content


def note(number: int, name: bytes = b"Xen\0", description: bytes = b"1234") -> bytes:
    """Return a note of an ELF file."""
    return struct.pack("<III", len(name), len(description), number) + name + description


def bzimage(packed: bytes) -> bytes:
    """Return the image of a kernel whose header says where the packed one lies."""
    image = bytearray(1024)
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, 16, len(packed))
    return bytes(image) + bytes(16) + packed + b"behind"


PVH_KERNEL = elf(4, note(6) + note(18))


# The kernel


def test_the_newest_kernel_with_rxe_is_taken(tmp_path: Path) -> None:
    for release in ("6.1.0-9-amd64", "6.1.0-50-amd64", "5.10.0-99-amd64"):
        install(tmp_path, release)
    install(tmp_path, "6.12.1-cloud-amd64", rxe=False)
    install(tmp_path, "6.11.0-amd64", image=False)
    assert newest_kernel(tmp_path / "boot", tmp_path / "modules").release == "6.1.0-50-amd64"


def test_where_no_kernel_fits_each_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    install(tmp_path, "6.1.0-cloud-amd64", rxe=False)
    install(tmp_path, "6.1.0-amd64", image=False)
    with pytest.raises(ResourceError) as told:
        newest_kernel(tmp_path / "boot", tmp_path / "modules")
    assert "6.1.0-cloud-amd64 has no module rdma_rxe (kernels for clouds" in str(told.value)
    assert "vmlinuz-6.1.0-amd64 is not there" in str(told.value)
    assert "install linux-image-amd64" in str(told.value)


def test_modules_come_after_what_they_need_and_once(tmp_path: Path) -> None:
    (tmp_path / "modules.dep").write_text(
        "a/top.ko: a/mid-dle.ko.xz a/low.ko\na/mid-dle.ko.xz: a/low.ko\na/low.ko:\n"
    )
    (tmp_path / "modules.builtin").write_text("kernel/inside.ko\n")
    kernel = Kernel("1", tmp_path / "vmlinuz", tmp_path)
    order = modules_in_order(kernel, ("mid_dle", "top", "inside"))
    assert [path.name for path in order] == ["low.ko", "mid-dle.ko.xz", "top.ko"]
    with pytest.raises(ResourceError, match="has no module unheard"):
        modules_in_order(kernel, ("unheard",))


@pytest.mark.parametrize(
    "packed", [lzma.compress(PVH_KERNEL), gzip.compress(PVH_KERNEL) + b"size"], ids=["xz", "gzip"]
)
def test_a_kernel_that_can_be_entered_unpacked_is_unpacked(packed: bytes) -> None:
    assert bootable(bzimage(packed)) == PVH_KERNEL


@pytest.mark.parametrize(
    "image",
    [
        b"no kernel" * 100,
        bzimage(b"\x28\xb5\x2f\xfd in zstd"),
        bzimage(lzma.compress(elf(4, note(6)))),
        bzimage(lzma.compress(elf(4, note(18, b"GNU\0")))),
    ],
)
def test_another_image_stays_as_it_is(image: bytes) -> None:
    assert bootable(image) == image


def test_a_program_with_a_loader_is_not_static() -> None:
    assert is_static(elf(1, b""))
    assert not is_static(elf(3, b"/lib64/ld-linux-x86-64.so.2"))
    assert not is_static(b"#!/bin/sh")
    assert not has_pvh_entry(elf(1, b""))


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_packed_module_is_unpacked(tmp_path: Path, suffix: str, pack: type[bytes]) -> None:
    path = tmp_path / f"module.ko{suffix}"
    path.write_bytes(pack(b"code"))
    assert guest_kernel.unpacked_module(path) == b"code"


def test_a_module_in_zstd_needs_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_kernel, "program", lambda name: None)
    path = tmp_path / "module.ko.zst"
    path.touch()
    with pytest.raises(ResourceError, match="apt-get install zstd"):
        guest_kernel.unpacked_module(path)


# Its memory


def entries_of(archive: bytes) -> list[tuple[str, int, bytes]]:
    """Return (name, mode, data) of the entries of a newc archive."""
    found: list[tuple[str, int, bytes]] = []
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        start = -(-(at + 110 + fields[11]) // 4) * 4
        at = -(-(start + fields[6]) // 4) * 4
        if name == "TRAILER!!!":
            assert at == len(archive)
            return found
        found.append((name, fields[1], archive[start : start + fields[6]]))


def test_an_archive_holds_its_entries() -> None:
    entries = [Entry("bin", mode=0o755), Entry("bin/tool", b"12345", 0o755), Entry("text", b"")]
    assert entries_of(newc(entries)) == [
        ("bin", 0o040755, b""),
        ("bin/tool", 0o100755, b"12345"),
        ("text", 0o100644, b""),
    ]


def test_the_memory_holds_busybox_modules_agent_and_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["virtio_pci", "virtio_console", "virtio_rng", "overlay", "9pnet_virtio", "9p", "virtio_net"]
    for name in names:
        (tmp_path / f"{name}.ko").write_bytes(name.encode())
    (tmp_path / "modules.dep").write_text("".join(f"{name}.ko:\n" for name in names))
    busybox = tmp_path / "busybox"
    busybox.write_bytes(elf(1, b"code"))
    monkeypatch.setattr(guest_initramfs, "program", lambda name: str(busybox))
    kernel = Kernel("1", tmp_path / "vmlinuz", tmp_path)
    archive = guest_initramfs.initramfs(kernel, Path("/bin/python"), virtiofs=False, share=False, links=True)
    found = {name: data for name, _, data in entries_of(archive)}
    assert [name for name in found if name.startswith("modules/")] == [
        f"modules/{number:02}-{name}.ko" for number, name in enumerate(names)
    ]
    assert found["bin/busybox"] == busybox.read_bytes()
    assert b"class Agent" in found["agent.py"]
    busybox.write_bytes(elf(3, b"/lib/ld.so"))
    with pytest.raises(ResourceError, match="busybox-static"):
        guest_initramfs.initramfs(kernel, Path("/bin/python"), virtiofs=False, share=False, links=False)


def test_the_root_is_mounted_to_be_read_and_the_share_to_be_written() -> None:
    by_9p = init_script(Path("/py thon"), virtiofs=False, share=True)
    assert "mount -t 9p -o ro," in by_9p
    assert "root /lower" in by_9p
    assert "share /root/mnt/share" in by_9p
    assert "'/py thon' -I -S" in by_9p
    by_virtiofs = init_script(Path("/python"), virtiofs=True, share=False)
    assert "mount -t virtiofs -o ro root /lower" in by_virtiofs
    assert "9p" not in by_virtiofs


# Its machine


def command(root: int | None = None, **options: object) -> str:
    """Return the command line of a guest as one text."""
    descriptors = Descriptors(kernel=3, initramfs=4, console=5, channel=6, root=root)
    return " ".join(qemu_command(descriptors, memory_mib=512, cpus=3, **options))  # type: ignore[arg-type]


def test_a_guest_is_emulated_unless_something_else_is_asked_for() -> None:
    assert "-accel tcg,thread=multi" in command()
    assert "-accel kvm " in command(accelerator="kvm")
    assert "-m 512" in command()
    assert "-smp 3" in command()


def test_the_root_is_read_only_by_9p_and_shared_memory_by_virtiofs() -> None:
    assert "path=/,security_model=none,readonly=on" in command()
    assert "memory-backend-memfd,id=memory,size=512M,share=on" in command(root=7)
    assert "readonly" not in command(root=7)


def test_a_share_with_a_comma_in_its_name_is_one_path() -> None:
    assert "id=share,path=/a,,b,security_model=none" in command(share=Path("/a,b"))
    assert "share," not in command().replace("share=on", "")


def test_a_link_is_a_socket_or_two_paths() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        links = [
            GuestLink(theirs, "10.7.0.2/24"),
            GuestLink((Path("/x/in"), Path("/x/out")), "10.7.1.2/24", peer="10.7.1.1"),
        ]
        line = command(links=links)
        assert f"dgram,id=link0,local.type=fd,local.str={theirs.fileno()}" in line
    assert "local.path=/x/in,remote.type=unix,remote.path=/x/out" in line
    assert "netdev=link0,mac=02:00:0a:07:00:02,host_mtu=4300" in line
    assert links_script(links).splitlines() == [
        "ip address add 10.7.0.2/24 dev eth0",
        "ip link set eth0 up",
        "ip address add 10.7.1.2/24 dev eth1",
        "ip link set eth1 up",
        "ip neighbour add 10.7.1.1 lladdr 02:00:0a:07:01:01 dev eth1",
    ]
    assert rxe_script(1).splitlines()[1:] == [
        "rdma link add rxe0 type rxe netdev lo",
        "rdma link add rxe1 type rxe netdev eth0",
    ]


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(UsageError, match="no IPv4 address"):
        mac_of("nowhere")


def test_further_arguments_come_last() -> None:
    assert command(devices=["-device", "nvme,serial=1"]).endswith("-device nvme,serial=1")


def test_another_processor_has_no_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(ResourceError, match="this machine is aarch64"), Guest():
        pass


def test_a_guest_runs_only_within_its_block(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="use `with Guest"):
        Guest().run(["true"])
    with pytest.raises(UsageError, match="no folder"):
        Guest(share=tmp_path / "missing")


def test_virtiofs_is_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert guest_machine.virtiofsd() is None


# The channel


def test_frames_are_taken_whole_and_in_order() -> None:
    received = bytearray(frame(4, 7, b"output") + frame(6, 7, b"0"))
    rest = received[-3:]
    del received[-3:]
    assert take_frame(received) == (4, 7, b"output")
    assert take_frame(received) is None
    received += rest
    assert take_frame(received) == (6, 7, b"0")
    assert take_frame(received) is None


def test_an_order_comes_through_as_it_was_given() -> None:
    order = ["printf", "a b\n", ""], {"PATH": "/bin", "EMPTY": "", "SUM": "1=1"}, "/tmp/x y"
    assert unpacked_order(packed_order(*order)) == order


# Packages


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = [package for package in PACKAGES if package.name in ("busybox-static", "perftest")]
    monkeypatch.setattr(guest_packages, "missing_packages", lambda: lacking)
    with pytest.raises(ResourceError) as told:
        guest_packages.require_packages_to_boot()
    assert "missing busybox-static (the first program of the guest)" in str(told.value)
    assert str(told.value).endswith("apt-get install --no-install-recommends busybox-static")


def test_a_package_is_known_by_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_packages, "program", lambda name: None)
    assert missing_packages(tmp_path) == list(PACKAGES)
    assert install_command(PACKAGES[:1]) == "apt-get install --no-install-recommends linux-image-amd64"
    install(tmp_path / "lib", "6.1")
    assert PACKAGES[0].is_here(tmp_path)


# pyverbs


def test_pyverbs_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "pyverbs", raising=False)
    with pytest.raises(ResourceError, match="apt-get install python3-pyverbs"):
        load_pyverbs(tmp_path)
    (tmp_path / "pyverbs").mkdir()
    (tmp_path / "pyverbs" / "__init__.py").touch()
    (tmp_path / "pyverbs" / "device.cpython-39-x86_64-linux-gnu.so").touch()
    with pytest.raises(ResourceError, match=r"is device\.cpython-39.*and this is CPython 3\."):
        load_pyverbs(tmp_path)
    assert "pyverbs" not in sys.modules


def test_pyverbs_of_the_distribution_is_loaded_without_its_other_packages() -> None:
    try:
        verbs = load_pyverbs()
    except ResourceError as missing:
        pytest.skip(str(missing))
    assert verbs.enums.IBV_WR_RDMA_WRITE == 0
    assert str(verbs_library.DISTRIBUTION) not in sys.path


def test_a_kernel_without_rdma_devices_is_told_so_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rdma_devices(tmp_path) == []
    monkeypatch.setattr(verbs_library, "rdma_devices", list)
    with pytest.raises(ResourceError, match="rdma link add rxe0 type rxe netdev lo"):
        require_rdma_device()
    (tmp_path / "rxe0").mkdir()
    assert guest_rxe.rdma_devices(tmp_path) == ["rxe0"]


# Time limits


def test_what_was_waited_for_and_whose_time_was_over_is_said() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        late = Channel(ours, 0.0, str)
        with pytest.raises(
            GuestTimeoutError,
            match=r"the guest's time limit was over after 0\.0 s of waiting for the guest to boot; give it",
        ):
            late.wait_until(lambda: False, 60.0, "the guest to boot")
        channel = Channel(ours, float("inf"), str)
        with pytest.raises(GuestTimeoutError, match=r"^gave up after 0\.0 s of waiting for the end$"):
            channel.wait_until(lambda: False, 0.0, "the end")
