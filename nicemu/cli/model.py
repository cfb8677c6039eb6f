# SPDX-License-Identifier: Apache-2.0
"""`nicemu model`: profiles of hardware and software, and where each of their values comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .show import JSON_OPTION, print_json, print_table

if TYPE_CHECKING:
    from nicemu.model import Value


@click.group()
def model() -> None:
    """Look at what the models take for given."""


@model.command()
@click.argument("profile", required=False)
@click.option("--server", "as_server", is_flag=True, help="PROFILE is a server: a model on a GPU.")
@click.option("--explain", is_flag=True, help="Say of every value where it comes from.")
@click.option("--set", "given", metavar="FIELD=VALUE", multiple=True, help="Another value for a field.")
@JSON_OPTION
def show(profile: str | None, as_server: bool, explain: bool, given: tuple[str, ...], as_json: bool) -> None:
    """Show the fields of PROFILE: hardware (seed, physical), a model on a GPU (--server), or a TOML file.

    \b
    nicemu model show --explain
    nicemu model show physical --set pcie.latency_s=1e-6
    nicemu model show --server h100_llama31_8b --explain
    """
    from nicemu.errors import UsageError
    from nicemu.model import PROFILES, SERVERS, read_profile, read_server

    known = (*PROFILES, *SERVERS)
    if profile is not None and profile not in known and not Path(profile).is_file():
        raise UsageError(f"there is no profile {profile}; {', '.join(known)} or a TOML file were expected")
    is_server = as_server or profile in SERVERS
    name = profile or ("a100_llama2_7b" if is_server else "seed")
    found = (read_server if is_server else read_profile)(name).having(values_of(given))
    if as_json:
        print_json(
            {
                "name": found.name,
                "title": found.title,
                "fields": {
                    field.name: {
                        "value": field.value,
                        "unit": field.unit,
                        "provenance": field.provenance.value,
                        "source": field.source,
                    }
                    for field in found.fields.values()
                },
            }
        )
        return
    click.echo(f"{found.name}: {found.title}")
    columns = ["field", "value", "unit"] + (["provenance", "source"] if explain else [])
    rows = [
        [field.name, str(field.value), field.unit or None]
        + ([field.provenance.value, field.source] if explain else [])
        for field in found.fields.values()
    ]
    print_table(columns, rows)


def values_of(given: tuple[str, ...]) -> dict[str, Value]:
    """Return what FIELD=VALUE options say. Raises: click.UsageError."""
    found: dict[str, Value] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise click.UsageError(f"--set {text}: FIELD=VALUE was expected, as pcie.latency_s=1e-6")
        found[name.strip()] = value_of(value.strip())
    return found


def value_of(text: str) -> Value:
    """Return what a text says: a number, or itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
