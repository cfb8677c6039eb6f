# SPDX-License-Identifier: Apache-2.0
"""Rows of the three formats that traces come in, turned into requests, each with what it must hold.

Source: kvcache-ai/Mooncake `FAST25-release/traces`, Azure/AzurePublicDataset `AzureLLMInferenceTrace`, and
HPMLL/BurstGPT.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from nicemu.errors import UsageError

from .request import BLOCK_TOKENS, Request, blocks_in

MOST_TOKENS: Final = 1 << 30
"""More tokens than this in a prompt or an answer are a mistake."""
MOST_TIME: Final = 1e15
"""And so are later times than this, in ms or s; those of the epoch in milliseconds are 1.8e12."""


class Row(NamedTuple):
    """A line of a trace: its number, and the request, None if the trace says that it failed.

    `arrival_s` counts from where the format counts; the reader counts from the first.
    """

    line: int
    request: Request | None


Rows: TypeAlias = Callable[[Iterable[str]], Iterator[Row]]
"""Makes rows of lines. Raises: UsageError, which begins with the line's number."""


def refused(line: int, told: str) -> UsageError:
    """Return the error that a line is refused with."""
    return UsageError(f"line {line}: {told}")


# Mooncake


def mooncake_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Read JSON lines: timestamp in ms, input_length, output_length, hash_ids; session and turn may be there.

    Where hash_ids do not stand, those of a session share as far as its shorter prompts go.
    """
    unshared = _Unshared()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise refused(number, f"a JSON object was expected; {error}") from None
        if not isinstance(row, dict):
            raise refused(number, f"{line.strip()[:60]!r} is no JSON object")
        tokens = _count(number, "input_length", row.get("input_length"), 1)
        answer = _count(number, "output_length", row.get("output_length"), 0)
        session, turn = _session(number, row)
        blocks = row.get("hash_ids")
        if blocks is None:
            blocks = unshared.blocks(tokens) if session is None else _session_blocks(session, tokens)
        elif not isinstance(blocks, list) or not all(type(block) is int and block >= 0 for block in blocks):
            told = f"hash_ids is {str(blocks)[:60]}; a list of whole numbers, 0 at least, was expected"
            raise refused(number, told)
        elif len(blocks) != blocks_in(tokens):
            raise refused(
                number,
                f"hash_ids has {len(blocks)} blocks; {blocks_in(tokens)} were expected, for {tokens} tokens "
                f"in blocks of {BLOCK_TOKENS}",
            )
        arrival_s = 1e-3 * _time(number, "timestamp", row.get("timestamp"))
        yield Row(number, Request(arrival_s, tokens, answer, blocks, session, turn))


def _session(line: int, row: dict[str, Any]) -> tuple[str | None, int | None]:
    session, turn = row.get("session"), row.get("turn")
    if session is not None and (isinstance(session, bool) or not isinstance(session, str | int)):
        raise refused(line, f"session is {session!r}; a text or a whole number was expected")
    return None if session is None else str(session), None if turn is None else _count(line, "turn", turn, 0)


# CSV


def azure_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Read TIMESTAMP, ContextTokens, GeneratedTokens. Nothing says which prompts begin alike."""
    unshared = _Unshared()
    for number, row in _cells(lines, AZURE_COLUMNS):
        tokens = _count_in(number, "ContextTokens", row["ContextTokens"], 1)
        answer = _count_in(number, "GeneratedTokens", row["GeneratedTokens"], 0)
        arrival_s = _date(number, row["TIMESTAMP"])
        yield Row(number, Request(arrival_s, tokens, answer, unshared.blocks(tokens)))


def burstgpt_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Read Timestamp in s, Model, Request, Response and Total tokens, Log Type; a Session ID may stand too.

    A row with 0 response tokens is a request that failed: it has no answer whose time could be told.
    """
    unshared = _Unshared()
    for number, row in _cells(lines, BURSTGPT_COLUMNS):
        answer = _count_in(number, "Response tokens", row["Response tokens"], 0)
        tokens = _count_in(number, "Request tokens", row["Request tokens"], 1 if answer else 0)
        total = _count_in(number, "Total tokens", row["Total tokens"], 0)
        if answer and total != tokens + answer:
            raise refused(number, f"Total tokens is {total}; {tokens} + {answer} was expected")
        arrival_s = _number_in(number, "Timestamp", row["Timestamp"])
        if not answer:
            yield Row(number, None)
            continue
        session = row.get("Session ID") or None
        blocks = unshared.blocks(tokens) if session is None else _session_blocks(session, tokens)
        yield Row(number, Request(arrival_s, tokens, answer, blocks, session))


AZURE_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURSTGPT_COLUMNS: Final = (
    "Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"
)  # fmt: skip


def columns_of(line: str) -> list[str]:
    """Return the columns that the first line of a CSV file names; none if it is no such line."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return []


def _cells(lines: Iterable[str], wanted: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    table = csv.reader(lines, strict=True)
    try:
        columns = [cell.strip() for cell in next(table, [])]
        missing = [column for column in wanted if column not in columns]
        if missing:
            raise refused(1, f"there is no column {', '.join(missing)}; {', '.join(wanted)} were expected")
        for cells in table:
            if not cells:
                continue
            if len(cells) != len(columns):
                raise refused(table.line_num, f"{len(cells)} cells; {len(columns)} were expected")
            yield table.line_num, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise refused(table.line_num, f"comma-separated cells were expected; {error}") from None


# Values


def _count(line: int, name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_TOKENS:
        raise refused(
            line, f"{name} is {value!r:.60}; a whole number from {least} to {MOST_TOKENS} was expected"
        )
    return value


def _count_in(line: int, name: str, text: str, least: int) -> int:
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return _count(line, name, value, least)


def _time(line: int, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TIME:
        raise refused(line, f"{name} is {value!r:.60}; a number from 0 to {MOST_TIME:g} was expected")
    return float(value)


def _number_in(line: int, name: str, text: str) -> float:
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return _time(line, name, value)


def _date(line: int, text: str) -> float:
    """Return the seconds of a date; one without a zone is taken for UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise refused(
            line, f"TIMESTAMP is {text!r}; a date and time was expected, as 2023-11-16 18:17:03.9799600"
        ) from None
    zoned = found if found.tzinfo else datetime.fromisoformat(f"{found.isoformat()}+00:00")
    return zoned.timestamp()


class _Unshared:
    """Names blocks of prompts of which nothing is known: each is new."""

    def __init__(self) -> None:
        self._next = -1

    def blocks(self, tokens: int) -> range:
        """Return names that nobody has, below 0: a trace's own are not."""
        first = self._next
        self._next -= blocks_in(tokens)
        return range(first, self._next, -1)


def _session_blocks(session: str, tokens: int) -> range:
    """Return the names of a prompt that only grows from turn to turn."""
    digest = blake2b(session.encode(errors="surrogatepass"), digest_size=6).digest()
    first = int.from_bytes(digest) << 22
    return range(first, first + blocks_in(tokens))
