# SPDX-License-Identifier: Apache-2.0
"""DigestEntry, which says how digests are to be sent: updates and reads.

Source: P4Runtime Specification 1.4, "DigestEntry".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import DigestConfig, DigestInfo, Engine

from .changes import Change, Query, Undo
from .messages import DELETE, INSERT, Message, messages
from .refusals import illegal
from .schema import Schema


@dataclass(slots=True)
class ChangeDigest:
    """Have digests of a name sent, sent in another way, or sent no more."""

    update_type: int
    name: str
    config: DigestConfig

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        digests = engine.objects.digests
        if self.update_type == INSERT and self.name in digests:
            raise ControlError(P4RuntimeCode.ALREADY_EXISTS, f"digest {self.name} is sent already; modify it")
        if self.update_type != INSERT and self.name not in digests:
            raise ControlError(P4RuntimeCode.NOT_FOUND, f"digest {self.name} is not sent; insert it first")
        if self.update_type == DELETE:
            del digests[self.name]
        else:
            digests[self.name] = self.config

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        digests = engine.objects.digests
        present = digests.get(self.name)

        def put_back() -> None:
            digests.pop(self.name, None)
            if present is not None:
                digests[self.name] = present

        return put_back


def digest_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a DigestEntry means. Raises: ControlError."""
    info: DigestInfo = schema.item("digest", message.digest_id)
    config = digest_config(message.config)
    numbers = (config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)
    if update_type != DELETE and min(numbers) < 0:
        raise illegal(f"digest {info.name}: {numbers} found; times and sizes are not negative")
    return ChangeDigest(update_type, info.name, config)


def digest_config(config: Message) -> DigestConfig:
    """Return what a DigestEntry.Config says."""
    return DigestConfig(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)


def digest_query(message: Message, schema: Schema) -> Query:
    """Return the query that a DigestEntry in a ReadRequest means. Raises: ControlError."""
    names = {info.name: info.id for info in schema.items("digest", message.digest_id)}

    def take(engine: Engine) -> list[tuple[str, DigestConfig]]:
        return [item for item in engine.objects.digests.items() if item[0] in names]

    def render(seen: list[tuple[str, DigestConfig]]) -> Iterator[Message]:
        for name, given in seen:
            entity = messages().Entity()
            entry = entity.digest_entry
            entry.digest_id = names[name]
            entry.config.max_timeout_ns, entry.config.max_list_size = (
                given.max_timeout_ns,
                given.max_list_size,
            )
            entry.config.ack_timeout_ns = given.ack_timeout_ns
            yield entity

    return Query(take, render)
