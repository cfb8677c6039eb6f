# SPDX-License-Identifier: Apache-2.0
"""examples/bmv2: what is started with the options of p4c and simple_switch_grpc is nicemu."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nicemu.control import P4RuntimeClient, p4info_bytes, p4info_json, p4info_text
from nicemu.p4 import compile_program, compile_text
from nicemu.run import read_program
from tests.unit.bmv2.router_json import ROUTER_P4

pytestmark = pytest.mark.process

STAND_INS = Path(__file__).parents[2] / "examples" / "bmv2"
LIMIT_S = 60.0


def started(name: str, *words: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(STAND_INS / name), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(STAND_INS.parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(name: str, *words: str, folder: Path) -> tuple[int | None, str]:
    """Return how a stand-in ended, and its complaints."""
    process = started(name, *words, folder=folder)
    _, complaints = process.communicate(timeout=LIMIT_S)
    return process.returncode, complaints


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("p4c", ("--target", "bmv2", "--arch", "v1model", "-o", ".")),
        ("p4c-bm2-ss", ("--p4v", "16", "-o", "r.json")),
    ],
)
def test_a_program_is_compiled_as_p4c_is_asked_to(tmp_path: Path, name: str, output: tuple[str, ...]) -> None:
    (tmp_path / "r.p4").write_text(ROUTER_P4)
    assert run(name, *output, "--p4runtime-files", "r.txtpb", "r.p4", folder=tmp_path) == (0, "")
    made = compile_program(tmp_path / "r.p4")
    assert read_program(tmp_path / "r.json").p4info == made.p4info
    assert (tmp_path / "r.txtpb").read_text() == p4info_text(made.p4info)


def test_p4info_has_the_form_that_its_name_tells_or_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "r.p4").write_text(ROUTER_P4)
    words = ("-o", "r.json", "--p4runtime-files", "r.bin,i.json", "r.p4")
    assert run("p4c-bm2-ss", *words, folder=tmp_path) == (0, "")
    p4info = compile_program(tmp_path / "r.p4").p4info
    assert (tmp_path / "r.bin").read_bytes() == p4info_bytes(p4info)
    assert (tmp_path / "i.json").read_text() == p4info_json(p4info)
    words = ("-o", "r.json", "--p4runtime-file", "r.x", "r.p4")
    assert run("p4c-bm2-ss", "--p4runtime-format", "binary", *words, folder=tmp_path) == (0, "")
    assert (tmp_path / "r.x").read_bytes() == p4info_bytes(p4info)
    told = run("p4c-bm2-ss", *words, folder=tmp_path)
    assert told == (
        1,
        "Error: --p4runtime-files r.x: a name that ends in .txtpb, .txt, .json, .bin was expected\n",
    )


def test_a_preprocessed_program_tells_of_changes_and_compiles(tmp_path: Path) -> None:
    (tmp_path / "r.p4").write_text('#include "rest.h"\n')
    (tmp_path / "rest.h").write_text(ROUTER_P4)
    assert run("p4c", "-E", "-o", ".", "r.p4", folder=tmp_path) == (0, "")
    before = (tmp_path / "r.p4i").read_text()
    (tmp_path / "rest.h").write_text(ROUTER_P4 + "// changed\n")
    assert run("p4c", "-E", "-o", ".", "r.p4", folder=tmp_path) == (0, "")
    assert (tmp_path / "r.p4i").read_text() != before
    assert run("p4c", "-e", "-o", ".", "r.p4", folder=tmp_path) == (0, "")
    assert (tmp_path / "r.json").exists()


def test_a_program_with_a_fault_is_refused_where_the_fault_is(tmp_path: Path) -> None:
    (tmp_path / "r.p4").write_text("header h { bit<8> f }\n")
    ended, complaints = run("p4c", "-o", ".", "r.p4", folder=tmp_path)
    assert (ended, complaints.startswith("r.p4:1:")) == (1, True)
    assert not (tmp_path / "r.json").exists()


def test_options_that_mean_nothing_here_are_not_heeded_and_warnings_are_errors_where_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "r.p4").write_text(ROUTER_P4)
    others = (
        "--emit-externs",
        "--Wdisable",
        "--Wdisable=unused",
        "--Werror=deprecated",
        "-g",
        "--toJSON",
        "ir.json",
        "--pp",
        "x.p4",
    )
    assert run("p4c-bm2-ss", *others, "--Werror", "-o", "r.json", "r.p4", folder=tmp_path) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.p4"]
    (tmp_path / "w.p4").write_text(ROUTER_P4 + "@hiden const bit<8> UNUSED = 1;\n")
    assert run("p4c-bm2-ss", "-o", "w.json", "w.p4", folder=tmp_path)[0] == 0
    ended, complaints = run("p4c-bm2-ss", "--Werror", "-o", "e.json", "w.p4", folder=tmp_path)
    assert (ended, "@hiden is not known" in complaints) == (1, True)
    assert not (tmp_path / "e.json").exists()


def test_a_switch_serves_whom_bmv2_would_serve(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(compile_text(ROUTER_P4).program.to_json())
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        served, thrift = one.getsockname()[1], other.getsockname()[1]
    core = (
        "--device-id",
        "3",
        "--thrift-port",
        str(thrift),
        "--log-console",
        "-L",
        "debug",
        "--log-file",
        "switch",
        "--enable-swap",
        "--drop-port",
        "511",
        "--pcap",
        "pcaps",
    )
    words = (*core, "r.json", "--", "--grpc-server-addr", f"127.0.0.1:{served}", "--cpu-port", "255")
    process = started("simple_switch_grpc", *words, folder=tmp_path)
    try:
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], LIMIT_S)[0]
        assert process.stderr.readline() == f"P4Runtime at 127.0.0.1:{served}, device 3\n"
        with socket.create_connection(("127.0.0.1", thrift), 10) as waiting:
            assert waiting.recv(1) == b""  # somebody is there, and has nothing to say
        with P4RuntimeClient(f"127.0.0.1:{served}", device_id=3) as client:
            assert [table.name for table in client.p4info().tables] == ["I.acl", "I.known", "I.route"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 0


def test_what_cannot_be_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = run("simple_switch_grpc", "--thrift-port", port, folder=tmp_path)
    assert (told[0], told[1].startswith(f"Error: --thrift-port {port} is not free: ")) == (1, True)
    told = run("simple_switch_grpc", "-i", "veth0", folder=tmp_path)
    assert told == (1, "Error: -i veth0: PORT@NAME was expected, such as 1@veth0\n")
    (tmp_path / "r.p4").write_text(ROUTER_P4)
    told = run("p4c", "-o", ".", "--p4runtime-files", "away/r.txtpb", "r.p4", folder=tmp_path)
    assert told == (1, "Error: away/r.txtpb: No such file or directory\n")


@pytest.mark.parametrize("name", ["p4c", "simple_switch_grpc"])
def test_a_python_without_nicemu_is_named(name: str) -> None:
    python = [sys.executable, "-I", "-S", str(STAND_INS / name)]
    done = subprocess.run(python, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1
    assert "put the bin folder of nicemu's environment in front of PATH" in done.stderr
