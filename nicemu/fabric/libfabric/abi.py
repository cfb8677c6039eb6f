# SPDX-License-Identifier: Apache-2.0
"""libfabric's binary interface: its structures and calls, opened at run time; no compiler and no headers.

The library exports a handful of functions; everything else is called through tables of function pointers
that begin with their own size. Attribute structures may be longer in a newer library than here, so those
that a program fills in are allocated with zeros behind them (`padded`).
Sources: fi_getinfo(3), fi_domain(3), fi_endpoint(3), fi_av(3), fi_cq(3), fi_cntr(3), fi_mr(3), fi_msg(3),
fi_tagged(3), fi_rma(3), fi_atomic(3), fi_trigger(3), and the structures of the public headers they name.
"""

from __future__ import annotations

import enum
import functools
import os
from dataclasses import dataclass
from typing import Any

from nicemu.errors import ResourceError, UsageError

LIBRARY = "libfabric.so.1"
API_VERSION = 1 << 16 | 15
"""What is asked for, 1.15; newer libraries, also of version 2, give it."""
INSTALL = "install it: apt-get install libfabric1 (Debian, Ubuntu), dnf install libfabric (Fedora)"
_PADDING_BYTES = 64
_LEAVE_SIGNALS_ALONE = ("HFI_NO_BACKTRACE", "IPATH_NO_BACKTRACE")
"""Variables that libpsm2 and libinfinipath heed."""

# fi_getinfo(3), fi_domain(3)
MSG, RMA, TAGGED, ATOMIC = 1 << 1, 1 << 2, 1 << 3, 1 << 4
READ, WRITE, RECV, SEND, REMOTE_READ, REMOTE_WRITE = (1 << bit for bit in range(8, 14))
REMOTE_CQ_DATA = 1 << 17
TRIGGER = 1 << 20
COMPLETION = 1 << 24
TRANSMIT_COMPLETE = 1 << 27
DELIVERY_COMPLETE = 1 << 28
RMA_EVENT = 1 << 56
SOURCE = 1 << 57
CONTEXT, CONTEXT2 = 1 << 59, 1 << 52
SELECTIVE_COMPLETION = 1 << 59
EP_RDM = 3
AV_TABLE = 2
THREAD_SAFE = 1
CQ_FORMAT_TAGGED = 4
WAIT_NONE, WAIT_UNSPEC = 0, 1
ADDRESS_UNSPECIFIED = (1 << 64) - 1
UINT64 = 7

# fi_endpoint(3): what is ordered behind what, on its way between two endpoints
ORDER_WAW, ORDER_SAS = 1 << 4, 1 << 8
ORDER_RMA_WAW, ORDER_ATOMIC_WAW = 1 << 35, 1 << 39

# fi_mr(3)
MR_LOCAL, MR_VIRT_ADDR, MR_ALLOCATED, MR_PROV_KEY, MR_ENDPOINT = 1 << 2, 1 << 4, 1 << 5, 1 << 6, 1 << 9

# fi_control(3)
ENABLE, QUEUE_WORK, CANCEL_WORK, FLUSH_WORK = 6, 11, 12, 13


class OpType(enum.IntEnum):
    """What deferred work does. Source: fi_trigger(3), `enum fi_op_type`."""

    RECV = 0
    SEND = 1
    TRECV = 2
    TSEND = 3
    READ = 4
    WRITE = 5
    ATOMIC = 6
    FETCH_ATOMIC = 7
    COMPARE_ATOMIC = 8
    CNTR_SET = 9
    CNTR_ADD = 10


class AtomicOp(enum.IntEnum):
    """Source: fi_atomic(3), `enum fi_op`."""

    MIN = 0
    MAX = 1
    SUM = 2
    BOR = 6
    BAND = 7
    BXOR = 9
    ATOMIC_WRITE = 11
    CSWAP = 12


_FOUNDATION = """
struct iovec { void *iov_base; size_t iov_len; };
struct fid { size_t fclass; void *context; struct fi_ops *ops; };
struct fi_ops {
    size_t size;
    int (*close)(struct fid *);
    int (*bind)(struct fid *, struct fid *, uint64_t);
    int (*control)(struct fid *, int, void *);
    int (*ops_open)(struct fid *, const char *, uint64_t, void **, void *);
};
struct fi_tx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t inject_size, size, iov_limit, rma_iov_limit;
};
struct fi_rx_attr { uint64_t caps, mode, op_flags, msg_order; };
struct fi_ep_attr {
    uint32_t type, protocol, protocol_version;
    size_t max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size;
    uint64_t mem_tag_format;
};
struct fi_domain_attr {
    struct fid_domain *domain;
    char *name;
    uint32_t threading, control_progress, data_progress, resource_mgmt, av_type;
    int mr_mode;
    size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt;
    size_t max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit;
};
struct fi_fabric_attr {
    struct fid_fabric *fabric;
    char *name, *prov_name;
    uint32_t prov_version, api_version;
};
struct fi_info {
    struct fi_info *next;
    uint64_t caps, mode;
    uint32_t addr_format;
    size_t src_addrlen, dest_addrlen;
    void *src_addr, *dest_addr;
    struct fid *handle;
    struct fi_tx_attr *tx_attr;
    struct fi_rx_attr *rx_attr;
    struct fi_ep_attr *ep_attr;
    struct fi_domain_attr *domain_attr;
    struct fi_fabric_attr *fabric_attr;
};
uint32_t fi_version(void);
const char *fi_strerror(int);
int fi_getinfo(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
void fi_freeinfo(struct fi_info *);
struct fi_info *fi_dupinfo(const struct fi_info *);
int fi_fabric(struct fi_fabric_attr *, struct fid_fabric **, void *);
"""

_OBJECTS = """
struct fid_fabric { struct fid fid; struct fi_ops_fabric *ops; };
struct fi_ops_fabric {
    size_t size;
    int (*domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *);
};
struct fid_domain { struct fid fid; struct fi_ops_domain *ops; struct fi_ops_mr *mr; };
struct fi_ops_domain {
    size_t size;
    int (*av_open)(struct fid_domain *, struct fi_av_attr *, struct fid_av **, void *);
    int (*cq_open)(struct fid_domain *, struct fi_cq_attr *, struct fid_cq **, void *);
    int (*endpoint)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *);
    void *scalable_ep;
    int (*cntr_open)(struct fid_domain *, struct fi_cntr_attr *, struct fid_cntr **, void *);
};
struct fi_ops_mr {
    size_t size;
    int (*reg)(struct fid *, const void *, size_t, uint64_t, uint64_t, uint64_t, uint64_t, struct fid_mr **,
               void *);
};
struct fid_mr { struct fid fid; void *mem_desc; uint64_t key; };
struct fi_av_attr { uint32_t type; int rx_ctx_bits; size_t count, ep_per_node; const char *name;
                    void *map_addr; uint64_t flags; };
struct fid_av { struct fid fid; struct fi_ops_av *ops; };
struct fi_ops_av {
    size_t size;
    int (*insert)(struct fid_av *, const void *, size_t, uint64_t *, uint64_t, void *);
};
struct fi_cq_attr { size_t size; uint64_t flags; uint32_t format, wait_obj; int signaling_vector;
                    uint32_t wait_cond; void *wait_set; };
struct fi_cq_tagged_entry { void *op_context; uint64_t flags; size_t len; void *buf; uint64_t data, tag; };
struct fi_cq_err_entry { void *op_context; uint64_t flags; size_t len; void *buf; uint64_t data, tag;
                         size_t olen; int err, prov_errno; void *err_data; size_t err_data_size; };
struct fid_cq { struct fid fid; struct fi_ops_cq *ops; };
struct fi_ops_cq {
    size_t size;
    ssize_t (*read)(struct fid_cq *, void *, size_t);
    void *readfrom;
    ssize_t (*readerr)(struct fid_cq *, struct fi_cq_err_entry *, uint64_t);
};
struct fi_cntr_attr { uint32_t events, wait_obj; void *wait_set; uint64_t flags; };
struct fid_cntr { struct fid fid; struct fi_ops_cntr *ops; };
struct fi_ops_cntr {
    size_t size;
    uint64_t (*read)(struct fid_cntr *);
    uint64_t (*readerr)(struct fid_cntr *);
    int (*add)(struct fid_cntr *, uint64_t);
    int (*set)(struct fid_cntr *, uint64_t);
    int (*wait)(struct fid_cntr *, uint64_t, int);
    int (*adderr)(struct fid_cntr *, uint64_t);
    int (*seterr)(struct fid_cntr *, uint64_t);
};
struct fid_ep { struct fid fid; void *ops; struct fi_ops_cm *cm; struct fi_ops_msg *msg; };
struct fi_ops_cm {
    size_t size;
    void *setname;
    int (*getname)(struct fid *, void *, size_t *);
};
"""

_CXI = """
struct fi_cxi_dom_ops {
    void *cntr_read, *topology, *enable_hybrid_mr_desc, *ep_get_unexp_msgs;
    int (*get_dwq_depth)(struct fid *, size_t *);
};
"""
CXI_DOMAIN_OPERATIONS = b"dom_ops_v5"
"""From this version on they end with `get_dwq_depth`. Source: fi_cxi(7), CXI Domain Extensions."""

_WORK = """
struct fi_context2 { void *internal[8]; };
struct fi_ioc { void *addr; size_t count; };
struct fi_rma_iov { uint64_t addr; size_t len; uint64_t key; };
struct fi_rma_ioc { uint64_t addr; size_t count; uint64_t key; };
struct fi_msg { const struct iovec *msg_iov; void **desc; size_t iov_count; uint64_t addr; void *context;
                uint64_t data; };
struct fi_msg_tagged { const struct iovec *msg_iov; void **desc; size_t iov_count; uint64_t addr, tag, ignore;
                       void *context; uint64_t data; };
struct fi_msg_rma { const struct iovec *msg_iov; void **desc; size_t iov_count; uint64_t addr;
                    const struct fi_rma_iov *rma_iov; size_t rma_iov_count; void *context; uint64_t data; };
struct fi_msg_atomic { const struct fi_ioc *msg_iov; void **desc; size_t iov_count; uint64_t addr;
                       const struct fi_rma_ioc *rma_iov; size_t rma_iov_count; uint32_t datatype, op;
                       void *context; uint64_t data; };
struct fi_msg_fetch { struct fi_ioc *msg_iov; void **desc; size_t iov_count; };
struct fi_msg_compare { const struct fi_ioc *msg_iov; void **desc; size_t iov_count; };
struct fi_op_msg { struct fid_ep *ep; struct fi_msg msg; uint64_t flags; };
struct fi_op_tagged { struct fid_ep *ep; struct fi_msg_tagged msg; uint64_t flags; };
struct fi_op_rma { struct fid_ep *ep; struct fi_msg_rma msg; uint64_t flags; };
struct fi_op_atomic { struct fid_ep *ep; struct fi_msg_atomic msg; uint64_t flags; };
struct fi_op_fetch_atomic { struct fid_ep *ep; struct fi_msg_atomic msg; struct fi_msg_fetch fetch;
                            uint64_t flags; };
struct fi_op_compare_atomic { struct fid_ep *ep; struct fi_msg_atomic msg; struct fi_msg_fetch fetch;
                              struct fi_msg_compare compare; uint64_t flags; };
struct fi_op_cntr { struct fid_cntr *cntr; uint64_t value; };
struct fi_deferred_work {
    struct fi_context2 context;
    uint64_t threshold;
    struct fid_cntr *triggering_cntr, *completion_cntr;
    uint32_t op_type;
    void *op;
};
struct nicemu_work {
    struct fi_deferred_work work;
    union {
        struct fi_op_msg msg;
        struct fi_op_tagged tagged;
        struct fi_op_rma rma;
        struct fi_op_atomic atomic;
        struct fi_op_fetch_atomic fetch;
        struct fi_op_compare_atomic compare;
        struct fi_op_cntr cntr;
    } op;
    struct iovec pieces[2];
    struct fi_rma_iov remote;
    struct fi_rma_ioc remote_word;
    struct fi_ioc operand, result, compare;
    void *descriptors[2];
    void *result_descriptor[1];
    uint64_t operand_value, result_value, compare_value;
};
"""
"""`nicemu_work` is ours: one deferred operation and all it points to, in one piece of memory."""


@dataclass(frozen=True, slots=True)
class Libfabric:
    """The opened library. `calls` has its exported functions; `ffi` makes its structures."""

    ffi: Any
    calls: Any
    version: tuple[int, int]

    def check(self, status: int, what: str) -> int:
        """Return a status that is 0 or more.

        Raises: ResourceError (EAGAIN, ENOMEM, ENOSPC; EDOM, for a NIC without a free counter), UsageError.
        """
        if status >= 0:
            return status
        message = f"{what}: libfabric says {self.reason(status)} ({status})"
        raise (ResourceError if -status in (11, 12, 28, 33) else UsageError)(message)

    def reason(self, status: int) -> str:
        """Return libfabric's words for a status below 0."""
        return str(self.ffi.string(self.calls.fi_strerror(-status)).decode())

    def padded(self, kind: str) -> tuple[Any, Any]:
        """Return a zeroed structure with zeros behind it, and what owns its memory."""
        memory = self.ffi.new("char[]", int(self.ffi.sizeof(kind)) + _PADDING_BYTES)
        return self.ffi.cast(f"{kind} *", memory), memory


@functools.cache
def load_libfabric() -> Libfabric:
    """Open libfabric. Raises: ResourceError, saying what to install, if it is not there or too old.

    Libraries that providers bring along would take SIGINT, SIGTERM and the signals of faults from Python as
    soon as they are loaded; they are told not to.
    """
    for name in _LEAVE_SIGNALS_ALONE:
        os.environ.setdefault(name, "1")
    try:
        from cffi import FFI
    except ImportError as error:
        raise ResourceError(f"libfabric is called by way of cffi, which is missing: {error}") from error
    ffi = FFI()
    ffi.cdef(_FOUNDATION + _OBJECTS + _CXI + _WORK)
    try:
        calls = ffi.dlopen(LIBRARY)
    except OSError as error:
        reason = str(error).partition(".  ")[0]  # cffi tells where else it has looked
        raise ResourceError(f"{LIBRARY} cannot be loaded ({reason}); {INSTALL}") from error
    number = int(calls.fi_version())
    version = (number >> 16, number & 0xFFFF)
    if number < API_VERSION:
        raise ResourceError(f"libfabric {version[0]}.{version[1]} is older than 1.15; {INSTALL}")
    if ffi.sizeof("struct fi_deferred_work") != 104:
        raise ResourceError("libfabric's structures are known for 64-bit machines only")
    return Libfabric(ffi, calls, version)


def libfabric_version() -> tuple[int, int]:
    """Return the version of this machine's libfabric. Raises: ResourceError, saying what to install."""
    return load_libfabric().version
