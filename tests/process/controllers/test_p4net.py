# SPDX-License-Identifier: Apache-2.0
"""p4net, as it is, has its networks of BMv2 switches on nicemu's, by the stand-ins of examples/bmv2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.controllers.environment import P4NET
from tests.process.test_switch import PROGRAM as BRIDGE

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
LIMIT_S = 240
PROGRAM = (
    BRIDGE.replace("table bridge {", "counter(4, CounterType.packets) seen; table bridge {")
    .replace("bridge.apply()", "seen.count((bit<32>) s.ingress_port); bridge.apply()")
    .replace("mark_to_drop(s)", "s.mcast_grp = 1")
)
"""The bridge, which floods what it does not know, and counts."""
SCRIPT = """
import sys, threading
from pathlib import Path
from p4net import Network
from p4net.compiler import P4Compiler
from p4net.runtime import BMv2Switch
from p4net.topo import Topology
BMv2Switch.__init__.__kwdefaults__["startup_timeout"] = 60.0  # the machine may have others to serve
topology = Topology()
for number in (1, 2):
    topology.add_host(f"h{number}", ip=f"10.0.0.{number}/24", mac=f"02:00:00:00:00:0{number}")
topology.add_switch("s1", p4_src="bridge.p4", cpu_port=255)
for number in (1, 2):
    topology.add_link(f"h{number}", "s1", port_b=number)
SERVE = '''
import socket
listener = socket.create_server(("10.0.0.2", 4000))
listener.settimeout(60)
peer, _ = listener.accept()
length = 0
while data := peer.recv(65536):
    length += len(data)
print(length)
'''
SEND = '''
import socket, time
for _ in range(200):
    try:
        peer = socket.create_connection(("10.0.0.2", 4000), 10)
        break
    except OSError:
        time.sleep(0.05)
peer.sendall(bytes(300_000))
peer.close()
'''
with Network(topology, compiler=P4Compiler(cache_dir=Path("cache"))) as net:
    client = net.switch("s1").client
    client.add_multicast_group(1, [1, 2])
    for number in (1, 2):
        key = {"h.ethernet.destination": f"02:00:00:00:00:0{number}"}
        client.insert_table_entry("I.bridge", key, "I.forward", {"port": number})
    served = []

    def serve():
        served.append(net.host("h2").exec([sys.executable, "-c", SERVE], capture_output=True))

    server = threading.Thread(target=serve)
    server.start()
    net.host("h1").exec([sys.executable, "-c", SEND])
    server.join()
    print("=", int(served[0].stdout), client.read_counter("I.seen", 1).packet_count > 0)
    print("=", len(client.list_table_entries("I.bridge")))
"""


def test_a_network_that_starts_bmv2_starts_nicemu_in_its_place(tmp_path: Path) -> None:
    python = P4NET.python()
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("p4net's networks need root, and iproute2 and util-linux")
    (tmp_path / "bridge.p4").write_text(PROGRAM)
    (tmp_path / "network.py").write_text(SCRIPT)
    # namespaces of its own, also for the names of those that p4net makes
    apart = (
        "mount --make-rprivate / && mkdir -p /run/netns && mount -t tmpfs none /run/netns && "
        f"ip link set lo up && exec {python} network.py"
    )
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", apart],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{ROOT / 'examples' / 'bmv2'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
            "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"there can be no namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("= ")] == ["= 300000 True", "= 2"]
