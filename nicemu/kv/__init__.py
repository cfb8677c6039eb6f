# SPDX-License-Identifier: Apache-2.0
"""What a key/value cache is to the NICs: chunks with keys, manifests of sessions, requests, and a durable
catalogue.

Pure: bytes in, values out, and back. The formats are nicemu's own; a block, a layer and a head mean what they
mean in the serving engines. `decode` returns the message in a UDP payload; `decode_record` and `decode_block`
belong to the catalogue on the storage NIC's namespace.
"""

from .catalogue import BlockWrite, Catalogue
from .chunk import CHUNK_KEY_BYTES, Chunk, ChunkKey, KvLayout, chunks_of
from .manifest import MANIFEST_HEADER_BYTES, MANIFEST_RECORD_BYTES, Manifest, StoredChunk, read_manifest
from .protocol import (
    KV_HEADER_BYTES,
    KV_MAGIC,
    KV_PORT,
    KV_VERSION,
    MAX_BODY_BYTES,
    SESSION_BYTES,
    Answer,
    AnswerFlag,
    ChunkMissing,
    FetchChunk,
    Kind,
    KvProtocolError,
    Message,
    Request,
    decode,
)
from .record import (
    BLOCK_BYTES,
    RECORD_BYTES,
    RECORDS_PER_BLOCK,
    Record,
    RecordError,
    RecordState,
    RecordVersionError,
    SlotFault,
    decode_block,
    decode_record,
    encode_block,
    encode_record,
)
from .store import DESCRIPTOR_BYTES, STORE_FAILED, Lease, StoreDescriptor

__all__ = [
    "BLOCK_BYTES",
    "CHUNK_KEY_BYTES",
    "DESCRIPTOR_BYTES",
    "KV_HEADER_BYTES",
    "KV_MAGIC",
    "KV_PORT",
    "KV_VERSION",
    "MANIFEST_HEADER_BYTES",
    "MANIFEST_RECORD_BYTES",
    "MAX_BODY_BYTES",
    "RECORDS_PER_BLOCK",
    "RECORD_BYTES",
    "SESSION_BYTES",
    "STORE_FAILED",
    "Answer",
    "AnswerFlag",
    "BlockWrite",
    "Catalogue",
    "Chunk",
    "ChunkKey",
    "ChunkMissing",
    "FetchChunk",
    "Kind",
    "KvLayout",
    "KvProtocolError",
    "Lease",
    "Manifest",
    "Message",
    "Record",
    "RecordError",
    "RecordState",
    "RecordVersionError",
    "Request",
    "SlotFault",
    "StoreDescriptor",
    "StoredChunk",
    "chunks_of",
    "decode",
    "decode_block",
    "decode_record",
    "encode_block",
    "encode_record",
    "read_manifest",
]
