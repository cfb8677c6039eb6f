# SPDX-License-Identifier: Apache-2.0
"""What `nicemu demo` runs: two users, a host process, a stand-in GPU, three NICs, and a host that is
stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nicemu.clock import PATIENCE
from nicemu.errors import NicemuError
from nicemu.programs import find_program
from nicemu.run import Instance, RunningNic, ask

USER_1, USER_2 = "11" * 16, "22" * 16
PROMPTS = (
    "A NIC moves my KV cache while the host sleeps. Tell me how.",
    " And what if I come back?",
    " Once more?",
)
OTHER_PROMPT = "I am the second user, and I need the memory of the first one now."
LANDING_TIMEOUT_S = 20.0 * PATIENCE


@dataclass
class Step:
    """One row of the report. CPU times in nanoseconds."""

    number: int
    what: str
    bytes: int = 0
    wall_ns: int = 0
    host_cpu_ns: int = 0
    nic_cpu_ns: int = 0


@dataclass
class Report:
    """What the demo found. `held` says of each claim whether it was so."""

    fabric: str
    steps: list[Step] = field(default_factory=list)
    held: dict[str, bool] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return bool(self.held) and all(self.held.values())

    def as_data(self) -> dict[str, Any]:
        """The report as JSON-able data."""
        return {**asdict(self), "ok": self.ok}


class Helper:
    """A process that does one thing for each JSON line."""

    def __init__(self, script: str, log: Path) -> None:
        self._script = script
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(find_program(script))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._log = log

    def tell(self, do: str, **operands: Any) -> None:  # noqa: ANN401
        """Give the process something to do."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **operands}) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise NicemuError(
                f"{self._script} has ended: {self._log.read_text(encoding='utf-8', errors='replace')[-2000:]}"
            ) from error

    def hear(self) -> dict[str, Any]:
        """Return what the process answers. Raises: NicemuError if it failed or ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise NicemuError(
                f"{self._script} has ended: {self._log.read_text(encoding='utf-8', errors='replace')[-2000:]}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NicemuError(f"{self._script}: {answer['error']}")
        return answer

    def do(self, do: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
        """Give the process something to do and wait for the answer."""
        self.tell(do, **operands)
        return self.hear()

    def end(self) -> None:
        """End the process, stopped or not."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def cpu_time_ns(pid: int) -> int:
    """CPU time of a process over all its threads, ended ones too, from the scheduler's own count.

    Source: Linux, clock_getcpuclockid(3): the clock of a process is its complemented id with CPUCLOCK_SCHED.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    states = [
        (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        for entry in Path(f"/proc/{pid}/task").iterdir()
    ]
    return all(state == "T" for state in states)


class Journey:
    """Runs the eight steps over an instance that is up."""

    def __init__(self, instance: Instance, fabric: str, progress: Callable[[str], None], logs: Path) -> None:
        self.instance = instance
        self.report = Report(fabric)
        self._progress = progress
        self.host = Helper("examples/demo_host.py", logs / "host.log")
        self.client = Helper("examples/demo_client.py", logs / "client.log")
        self._request_id = 0
        self._marks: tuple[int, int, int] = (0, 0, 0)

    def close(self) -> None:
        """End host and client."""
        try:
            self.client.end()
        finally:
            self.host.end()

    # Measuring

    def _nic_cpu_ns(self) -> int:
        return sum(round(ask(nic, "describe")["process"]["cpu_s"] * 1e9) for nic in self.instance.nics)

    def _begin(self, text: str) -> None:
        self._progress(text)
        self._marks = (time.monotonic_ns(), cpu_time_ns(self.host.process.pid), self._nic_cpu_ns())

    def _end(self, number: int, what: str, length_bytes: int = 0) -> Step:
        wall, host, nic = self._marks
        step = Step(
            number,
            what,
            length_bytes,
            time.monotonic_ns() - wall,
            cpu_time_ns(self.host.process.pid) - host,
            self._nic_cpu_ns() - nic,
        )
        self.report.steps.append(step)
        return step

    # Users

    def _send(self, session: str, prompt: str) -> int:
        self._request_id += 1
        host = self.instance.nics[0].ip
        operands = {"session": session, "prompt": prompt, "host": host, "port": 19286}
        self.client.do("send", request_id=self._request_id, **operands)
        return self._request_id

    def _answer(self, request_id: int) -> dict[str, Any]:
        return self.client.do("answer", request_id=request_id, timeout_s=20.0 * PATIENCE)

    def _compute_nic(self) -> RunningNic:
        return self.instance.nics[0]

    def _landed_count(self) -> int:
        return int(ask(self._compute_nic(), "describe")["statistics"].get("kv.sessions_landed", 0))

    def _wait_until_landed(self, before: int) -> None:
        deadline = time.monotonic() + LANDING_TIMEOUT_S
        while self._landed_count() == before:
            if time.monotonic() > deadline:
                statistics = ask(self._compute_nic(), "describe")["statistics"]
                raise NicemuError(f"the session did not land in {LANDING_TIMEOUT_S:.0f} s: {statistics}")
            time.sleep(0.002)

    # The steps

    def run(self, storage: list[str], config: dict[str, int]) -> Report:
        """Run all steps and return the report."""
        held, figures = self.report.held, self.report.figures
        self._begin("1  the host opens the compute NIC, registers KV memory, opens counters")
        opened = self.host.do("open", nic=str(self._compute_nic().socket), storage=storage, config=config)
        self._end(
            1,
            f"host opens the NIC, registers {opened['slots']} KV slots",
            opened["slots"] * opened["slot_bytes"],
        )

        self._begin(
            "2  user 1 asks; after each layer the GPU rings the doorbell, and the NICs store the chunks"
        )
        request = self._send(USER_1, PROMPTS[0])
        self.host.do("receive")
        first = self.host.do("serve")
        stored = self.host.do("make_durable", session=USER_1)
        figures["chunks_stored"] = stored["chunks"]
        held["every chunk is durable"] = stored["errors"] == 0 and stored["durable"] == first["chunks"]
        self._end(2, f"{first['chunks']} chunks fired by doorbells, durable on NVMe", first["bytes"])

        self._begin("3  user 1 gets the answer")
        answer = self._answer(request)
        held["user 1 was answered"] = bytes.fromhex(answer["answer"]) == _text(first["answer"])
        tokens = first["session_tokens"]
        left = self.host.do("digest", slot=first["slot"], tokens=tokens)["digest"]
        self._end(3, f"answer of {len(first['answer'])} tokens", len(first["answer"]))

        self._begin("4  user 1's KV is dropped, user 2 gets its memory")
        self.host.do("drop", session=USER_1)
        request = self._send(USER_2, OTHER_PROMPT)
        self.host.do("receive")
        second = self.host.do("serve")
        self._answer(request)
        self.host.do("make_durable", session=USER_2)
        held["user 2 got user 1's memory"] = second["slot"] == first["slot"]
        self._end(4, f"user 2's KV lies where user 1's lay (slot {second['slot']})", second["bytes"])

        landing = self.host.do("offer")["slot"]
        before = self._landed_count()
        os.kill(self.host.process.pid, signal.SIGSTOP)
        while not is_stopped(self.host.process.pid):
            time.sleep(0.001)
        self._begin("5  the host is stopped (SIGSTOP); user 1 comes back")
        frozen_ns = cpu_time_ns(self.host.process.pid)
        request = self._send(USER_1, PROMPTS[1])
        self._wait_until_landed(before)
        held["the host was stopped all the while"] = is_stopped(self.host.process.pid)
        stopped_cpu_ns = cpu_time_ns(self.host.process.pid) - frozen_ns
        self._progress("6  the NICs matched, fetched peer-to-peer and landed it; 7  the host is continued")
        self._end(
            5,
            "user 1 is back: P4 match, fetch, NVMe to NIC to KV memory",
            stored["chunks"] * opened["chunk_bytes"],
        )
        os.kill(self.host.process.pid, signal.SIGCONT)
        self._begin("7  the host sees what has landed")
        received = self.host.do("receive")
        restored = self.host.do("digest", slot=landing, tokens=tokens)["digest"]
        held["the NICs alone used no host CPU"] = stopped_cpu_ns == 0
        held["it landed in the poisoned slot"] = received["info"][:2] == [1, landing]
        held["the bytes that came back are the bytes that left"] = restored == left
        figures["host_cpu_ns_while_stopped"] = stopped_cpu_ns
        self._end(7, "host continues; the packet and the KV are there", received["info"][3])

        self._begin("8  inference goes on with the restored cache")
        check = self.host.do("flipped", slot=landing, tokens=tokens, prompt=PROMPTS[1])
        third = self.host.do("serve")
        self._answer(request)
        self.host.do("make_durable", session=USER_1)
        reference = self.host.do("reference", prompts=list(PROMPTS[:2]))["turns"]
        held["tokens equal a run without eviction"] = [first["answer"], third["answer"]] == [
            turn["answer"] for turn in reference
        ]
        held["logits are bit-equal to that run"] = [first["logits"], third["logits"]] == [
            turn["logits"] for turn in reference
        ]
        held["one flipped bit changes the logits"] = (
            check["intact"] == third["logits"][0] and check["flipped"] != check["intact"]
        )
        figures["tokens_in_session"] = third["session_tokens"]
        figures["tokens_computed"] = third["computed_tokens"]
        held["only new tokens were computed"] = third["computed_tokens"] == third["session_tokens"] - tokens
        self._end(
            8, f"computed {third['computed_tokens']} new tokens of {third['session_tokens']}", third["bytes"]
        )
        self._second_fetch(third["session_tokens"], third["slot"])
        return self.report

    def _second_fetch(self, tokens: int, slot: int) -> None:
        """Once more, with the host not stopped but blocked in its wait."""
        left = self.host.do("digest", slot=slot, tokens=tokens)["digest"]
        self.host.do("drop", session=USER_1)
        self.host.do("offer")
        self._begin("9  once more, with the host blocked in its wait instead of stopped")
        before = self._landed_count()
        self.host.tell("receive", timeout_s=20.0)
        time.sleep(0.2)
        request = self._send(USER_1, PROMPTS[2])
        received = self.host.hear()
        self._wait_until_landed(before)
        landed = self.host.do("landed")["slot"]
        again = self.host.do("digest", slot=landed, tokens=tokens)["digest"]
        self._end(9, "fetched again, host blocked in its wait", received["info"][3])
        self.report.figures["host_cpu_ns_while_waiting"] = received["cpu_ns"]
        if PATIENCE == 1:  # processor time of an emulated processor is a figure, and nothing to claim
            self.report.held["a host that waits uses at most 1 ms of CPU"] = received["cpu_ns"] <= 1_000_000
        self.report.held["the second fetch brought the same bytes"] = again == left
        self.host.do("serve")
        self._answer(request)


def _text(tokens: list[int]) -> bytes:
    return bytes(token if token < 256 else 0x20 for token in tokens)
