# SPDX-License-Identifier: Apache-2.0
"""The kernel that a guest boots: which one, in what order its modules load, and its image unpacked.

Sources: Linux Documentation/x86/boot.rst, "The Real-Mode Kernel Header"; modules.dep(5); System V ABI,
"Program Header"; Xen "x86/HVM direct boot ABI" (PVH).
"""

from __future__ import annotations

import gzip
import lzma
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import ResourceError

from .packages import program

_SETUP_SECTORS, _MAGIC, _PAYLOAD = 0x1F1, 0x202, 0x248  # offsets in the header of a bzImage
_SECTOR_BYTES = 512
_PT_INTERP, _PT_NOTE = 3, 4
_PVH_ENTRY = 18  # XEN_ELFNOTE_PHYS32_ENTRY
_RXE = "rdma_rxe"


@dataclass(frozen=True, slots=True)
class Kernel:
    """An installed kernel: its release, its image, and the folder of its modules."""

    release: str
    image: Path
    modules: Path


def newest_kernel(boot: Path = Path("/boot"), modules: Path = Path("/lib/modules")) -> Kernel:
    """Return the newest installed kernel that has rdma_rxe and an image that this user can read.

    Raises: ResourceError, with what each kernel that is installed lacks.
    """
    lacking = []
    for folder in sorted(modules.glob("*/"), key=lambda path: _version(path.name), reverse=True):
        kernel = Kernel(folder.name, boot / f"vmlinuz-{folder.name}", folder)
        if not any(folder.rglob(f"{_RXE}.ko*")):
            without = " (kernels for clouds come without it)" if "cloud" in folder.name else ""
            lacking.append(f"{folder.name} has no module {_RXE}{without}")
        elif not kernel.image.exists():
            lacking.append(f"{kernel.image} is not there")
        else:
            try:
                kernel.image.open("rb").close()
            except PermissionError:
                lacking.append(f"{kernel.image} can be read by root alone: chmod a+r {kernel.image}")
                continue
            return kernel
    found = "; ".join(lacking) or f"{modules} is empty"
    raise ResourceError(f"no kernel with {_RXE} to boot: {found}; install linux-image-amd64")


def modules_in_order(kernel: Kernel, names: tuple[str, ...]) -> list[Path]:
    """Return the files of modules and of what they need, each after what it needs, without what is built in.

    Raises: ResourceError for a name that the kernel does not know.
    """
    needs, places = _dependencies(kernel.modules)
    built_in = {_plain(line) for line in _lines(kernel.modules / "modules.builtin")}
    order: list[Path] = []
    for name in names:
        wanted = name.replace("-", "_")
        if wanted not in places:
            if wanted in built_in:
                continue
            raise ResourceError(f"kernel {kernel.release} has no module {name}; take another kernel")
        order += [kernel.modules / place for place in (*reversed(needs[wanted]), places[wanted])]
    return list(dict.fromkeys(order))


def unpacked_module(path: Path) -> bytes:
    """Return a module as insmod takes it.

    Raises: ResourceError if it is packed in a way for which there is no program here.
    """
    data = path.read_bytes()
    match path.suffix:
        case ".xz":
            return lzma.decompress(data)
        case ".gz":
            return gzip.decompress(data)
        case ".zst":
            zstd = program("zstd")
            if zstd is None:
                raise ResourceError(f"{path} is packed with zstd; apt-get install zstd")
            return subprocess.run([zstd, "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
        case _:
            return data


def bootable(image: bytes) -> bytes:
    """Return the kernel in a bzImage as the ELF file that QEMU starts at once, or the image itself.

    Unpacking takes an emulated processor twice as long as all the rest of booting. Kernels that are packed in
    another way than xz or gzip, or that have no PVH entry, stay as they are.
    """
    if image[_MAGIC : _MAGIC + 4] != b"HdrS":
        return image
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    start = (image[_SETUP_SECTORS] + 1) * _SECTOR_BYTES + offset
    packed = image[start : start + length]
    if packed.startswith(b"\xfd7zXZ\x00"):
        kernel = lzma.LZMADecompressor().decompress(packed)
    elif packed.startswith(b"\x1f\x8b"):
        kernel = gzip.decompress(packed[:-4])  # the length stands behind it once more
    else:
        return image
    return kernel if has_pvh_entry(kernel) else image


def has_pvh_entry(elf: bytes) -> bool:
    """Return whether a kernel says where it is entered in 32-bit mode without firmware."""
    for kind, offset, length in program_headers(elf):
        notes = elf[offset : offset + length] if kind == _PT_NOTE else b""
        at = 0
        while at + 12 <= len(notes):
            name_bytes, description_bytes, note = struct.unpack_from("<III", notes, at)
            if note == _PVH_ENTRY and notes[at + 12 : at + 15] == b"Xen":
                return True
            at += 12 + -(-name_bytes // 4) * 4 + -(-description_bytes // 4) * 4
    return False


def is_static(elf: bytes) -> bool:
    """Return whether a program runs without a loader and libraries."""
    headers = list(program_headers(elf))
    return bool(headers) and all(kind != _PT_INTERP for kind, _, _ in headers)


def program_headers(elf: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (type, offset, bytes in the file) of the segments of a 64-bit ELF file; of others nothing."""
    if elf[:5] != b"\x7fELF\x02":
        return
    table = struct.unpack_from("<Q", elf, 32)[0]
    size, count = struct.unpack_from("<HH", elf, 54)
    for number in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", elf, table + number * size)
        yield kind, offset, length


def _version(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", release)]


def _plain(place: str) -> str:
    return Path(place).name.partition(".ko")[0].replace("-", "_")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _dependencies(modules: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return what each module needs, nearest first, and where each lies, both by plain name."""
    needs, places = {}, {}
    for line in _lines(modules / "modules.dep"):
        place, _, rest = line.partition(":")
        places[_plain(place)], needs[_plain(place)] = place, rest.split()
    return needs, places
