# SPDX-License-Identifier: Apache-2.0
"""A CUDA stream as a `Stream`: the GPU's front end stores totals into doorbells and waits for counters.

No CPU takes part after the call: `cuStreamWriteValue64` is carried out when the stream's work before it is
done. The NIC's BAR is host memory that the driver maps for the GPU. `libcuda.so.1` comes with NVIDIA's driver
and is loaded when the first stream is made; no toolkit is needed.
Sources: CUDA Driver API, "Stream Memory Operations" (cuStreamWriteValue64, cuStreamWaitValue64, GEQ), "Memory
Management" (cuMemHostRegister, cuMemHostGetDevicePointer), "Data types used by CUDA driver"
(CUdevice_attribute).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from nicemu.abi import SharedMemory, Span
from nicemu.errors import NicemuError, UsageError
from nicemu.programs import find_program, load_module

from .memory import Memory
from .recording import tell_submitted, tell_synchronized

_FUNCTIONS = """
typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
typedef void *CUstream;
typedef unsigned long long CUdeviceptr;
CUresult cuInit(unsigned int flags);
CUresult cuGetErrorString(CUresult error, const char **text);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuMemHostRegister_v2(void *address, size_t length, unsigned int flags);
CUresult cuMemHostUnregister(void *address);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *address, unsigned int flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, unsigned long long value,
                                 unsigned int flags);
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, unsigned long long value,
                                unsigned int flags);
"""
_REGISTER_DEVICEMAP = 2
_WAIT_GEQ = 0
_CAN_USE_64_BIT_STREAM_MEM_OPS = 122
"""Of the functions that end in _v2; 93 asks for the deprecated ones before, which an H200's driver denies."""
_NON_BLOCKING = 1


class _Mapping:
    """Memory that the driver maps for the GPU, for all streams of this process that use it."""

    def __init__(self, memory: SharedMemory, pointer: int) -> None:
        self.memory, self.pointer = memory, pointer
        self.users: set[CudaStream] = set()


_mappings: dict[tuple[int, int], _Mapping] = {}
"""By library and address: the driver takes no memory twice."""
_mappings_lock = Lock()


@cache
def load_cuda() -> tuple[Any, Any]:
    """Return cffi's interface and the driver library.

    Raises: NicemuError that says what is missing, if there is no driver or no GPU.
    """
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(_FUNCTIONS)
    try:
        library = ffi.dlopen("libcuda.so.1")
    except OSError as error:
        raise NicemuError(
            f"no CUDA driver here ({error}); install NVIDIA's driver, or use HostStream"
        ) from error
    _check(ffi, library, library.cuInit(0), "cuInit")
    return ffi, library


def _check(ffi: Any, library: Any, result: int, what: str) -> None:  # noqa: ANN401 - cffi has no types
    if result:
        text = ffi.new("const char **")
        known = library.cuGetErrorString(result, text) == 0
        said = ffi.string(text[0]).decode() if known else f"error {result}"
        raise NicemuError(f"{what}: {said}")


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """Memory of the NIC at the address where the GPU sees it.

    Source: Numba, "CUDA Array Interface (Version 3)".
    """

    memory: Memory
    address: int

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        array = self.memory.array
        return {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }


class CudaStream:
    """Implements `Stream` on a CUDA stream.

    `stream` is a raw handle, anything with a `cuda_stream` (such as `torch.cuda.Stream`) or with a
    `__cuda_stream__()` (such as `cupy.cuda.Stream`), or None for one of its own on `device`. What runs on the
    GPU is put there by whoever owns the stream (`submit` calls a function with the handle, which may launch
    kernels); this class adds the stores and waits in between.
    Raises: NicemuError without a driver or a GPU that carries out stream memory operations.
    """

    def __init__(
        self, stream: object = None, device: int = 0, library: tuple[Any, Any] | None = None
    ) -> None:
        self._ffi, self._cuda = library or load_cuda()
        context = self._ffi.new("CUcontext *")
        self._call("cuCtxGetCurrent", context)
        if context[0] == self._ffi.NULL:
            place = self._ffi.new("CUdevice *")
            self._call("cuDeviceGet", place, device)
            self._call("cuDevicePrimaryCtxRetain", context, place[0])
            self._call("cuCtxSetCurrent", context[0])
        self._context = context[0]
        place, able = self._ffi.new("CUdevice *"), self._ffi.new("int *")
        self._call("cuCtxGetDevice", place)
        self._call("cuDeviceGetAttribute", able, _CAN_USE_64_BIT_STREAM_MEM_OPS, place[0])
        if not able[0]:
            raise NicemuError("this GPU carries out no 64-bit stream memory operations; use HostStream")
        self._is_own = stream is None
        handle = getattr(stream, "cuda_stream", stream)
        if hasattr(handle, "__cuda_stream__"):
            _, handle = handle.__cuda_stream__()
        if handle is None:
            made = self._ffi.new("CUstream *")
            self._call("cuStreamCreate", made, _NON_BLOCKING)
            self._stream = made[0]
        elif isinstance(handle, int):
            self._stream = self._ffi.cast("CUstream", handle)
        else:
            raise UsageError(
                f"{stream!r} is no CUDA stream: no handle, and nothing with a cuda_stream or __cuda_stream__"
            )
        self._kernels: Any = None
        self._results: list[Any] = []

    def _call(self, name: str, *operands: object) -> None:
        _check(self._ffi, self._cuda, getattr(self._cuda, name)(*operands), name)

    @property
    def handle(self) -> int:
        """The raw handle, for whoever launches kernels."""
        return int(self._ffi.cast("uintptr_t", self._stream))

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version and the raw handle, for libraries that take another's stream."""
        return 0, self.handle

    def device_array(self, memory: Memory) -> DeviceArray:
        """Return memory of `nic.allocate` as kernels see it, until this stream is closed.

        `cupy.asarray` and `torch.as_tensor(..., device="cuda")` take it without a copy, as does what knows
        the CUDA Array Interface.
        Raises: NicemuError if the driver does not map it.
        """
        address = self._pointer(memory.shared) + memory.array.ctypes.data - memory.shared.address
        return DeviceArray(memory, address)

    def _pointer(self, memory: SharedMemory) -> int:
        """Return where the GPU sees shared memory; the driver maps it once for all streams."""
        key = id(self._cuda), memory.address
        with _mappings_lock:
            known = _mappings.get(key)
            if known is not None and known.memory is not memory:  # what was there before is gone
                self._unmap(key)
                known = None
            if known is None:
                place = self._ffi.cast("void *", memory.address)
                self._call("cuMemHostRegister_v2", place, memory.length_bytes, _REGISTER_DEVICEMAP)
                pointer = self._ffi.new("CUdeviceptr *")
                self._call("cuMemHostGetDevicePointer_v2", pointer, place, 0)
                known = _mappings[key] = _Mapping(memory, int(pointer[0]))
            known.users.add(self)
            return known.pointer

    def _unmap(self, key: tuple[int, int]) -> None:
        del _mappings[key]
        self._call("cuMemHostUnregister", self._ffi.cast("void *", key[1]))

    def load(self, path: str | Path, memory: dict[str, Any], **settings: Any) -> None:  # noqa: ANN401
        """Load a kernel module: `kernels(memory, stream=handle, **settings)`; its methods launch kernels."""
        module = load_module(find_program(path))
        self._kernels = module.kernels(
            {name: piece.array for name, piece in memory.items()}, stream=self.handle, **settings
        )

    def launch(
        self,
        kernel: str,
        *,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        **operands: Any,  # noqa: ANN401
    ) -> None:
        """Let a kernel module put a kernel into the stream."""
        tell_submitted(self, kernel, reads, writes)
        self._results.append(getattr(self._kernels, kernel)(**operands))

    def submit(
        self, work: Callable[[int], Any], reads: Iterable[Span] = (), writes: Iterable[Span] = ()
    ) -> None:
        """Call `work(handle)`, which puts kernels into the stream."""
        tell_submitted(self, getattr(work, "__name__", "a function"), reads, writes)
        self._results.append(work(self.handle))

    def store(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put an 8-byte store into the stream; the GPU carries it out."""
        self._call("cuStreamWriteValue64_v2", self._stream, self._pointer(memory) + offset_bytes, value, 0)

    def wait_value(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put a wait into the stream: the GPU goes on when the 8 bytes are `value` or more."""
        place = self._pointer(memory) + offset_bytes
        self._call("cuStreamWaitValue64_v2", self._stream, place, value, _WAIT_GEQ)

    def synchronize(self) -> list[Any]:
        """Wait until the stream is empty; return what was submitted returned."""
        self._call("cuStreamSynchronize", self._stream)
        tell_synchronized(self)
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Wait for the stream, and take back what the driver mapped."""
        self._call("cuStreamSynchronize", self._stream)
        with _mappings_lock:
            for key, known in list(_mappings.items()):
                if self in known.users:
                    known.users.remove(self)
                    if not known.users:
                        self._unmap(key)
        if self._is_own:
            self._call("cuStreamDestroy_v2", self._stream)
