# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading

from nicemu.host.one_at_a_time import one_at_a_time


class Till:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside = 0
        self.most = 0
        self.turns = 0

    @one_at_a_time
    def count(self, steps: int, *, again: bool = False) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(steps):
            self.turns += 1
        self.inside -= 1
        return self.count(steps) if again else self.turns


def test_one_thread_at_a_time_is_in_a_method() -> None:
    till = Till()
    threads = [threading.Thread(target=till.count, args=(20_000,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (till.most, till.turns) == (1, 160_000)


def test_a_thread_that_is_inside_may_call_again() -> None:
    assert Till().count(3, again=True) == 6
