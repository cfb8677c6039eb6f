# SPDX-License-Identifier: Apache-2.0
"""Write p4runtime.binpb, the P4Runtime message descriptors that nicemu.control loads.

Run by hand, when P4Runtime itself changes, in a throw-away virtual environment that holds the published
packages `p4runtime` (Apache-2.0) and `googleapis-common-protos` (Apache-2.0):

    python -m venv /tmp/descriptors
    /tmp/descriptors/bin/pip install p4runtime==1.6.0
    /tmp/descriptors/bin/python nicemu/control/protos/make_descriptors.py

The file is one serialized google.protobuf.FileDescriptorSet: p4runtime.proto with what it imports, each
file after its own imports, without source information. Files of google/protobuf are left out: the
installed protobuf has them. The published modules predate today's protobuf; its pure Python
implementation still reads them.
"""

import os

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("p4runtime.binpb")


def main() -> int:
    """Write the file and print what it holds."""
    from google.protobuf import descriptor_pb2

    p4runtime_pb2 = import_module("p4.v1.p4runtime_pb2")

    files = descriptor_pb2.FileDescriptorSet()
    seen: set[str] = set()

    def add(descriptor: Any) -> None:  # noqa: ANN401 - protobuf's descriptors are untyped
        if descriptor.name in seen or descriptor.name.startswith("google/protobuf/"):
            return
        seen.add(descriptor.name)
        for dependency in descriptor.dependencies:
            add(dependency)
        file = descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb)
        file.ClearField("source_code_info")
        files.file.append(file)

    add(p4runtime_pb2.DESCRIPTOR)
    OUTPUT.write_bytes(files.SerializeToString(deterministic=True))
    print(f"{OUTPUT}: {OUTPUT.stat().st_size} bytes: {', '.join(file.name for file in files.file)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
