# SPDX-License-Identifier: Apache-2.0
"""`nicemu demo --time=virtual`: the predicted timeline of the journey."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .show import print_json, print_table

if TYPE_CHECKING:
    from .predicted_journey import Phase, Prediction


def predict(
    topology: str, profile: str, fabric: str | None, blocks: int, trace: Path | None, as_json: bool
) -> int:
    """Run the journey in virtual time and print when what happens; return the exit status."""
    from nicemu.errors import NicemuError, UsageError
    from nicemu.model import read_profile
    from nicemu.run import check_recordings, load_topology

    from .predicted_journey import PredictedJourney

    def progress(text: str) -> None:
        if not as_json:
            click.echo(f"  {text}")

    found, told = load_topology(topology), read_profile(profile)
    check_recordings(None, trace)
    if not found.nics[0].peers:
        raise UsageError(
            f"{found.path}: the journey needs the first NIC, {found.nics[0].name}, with storage NICs as its "
            "peers"
        )
    progress(f"nicemu demo in virtual time, profile {told.name}: {told.title}")
    try:
        prediction = PredictedJourney(found, told, fabric, blocks, trace).run(progress)
    except TimeoutError as error:
        raise NicemuError(f"profile {told.name} is too slow for the journey's programs: {error}") from error
    if as_json:
        print_json(prediction.as_data())
    else:
        _show(prediction)
    return 0 if prediction.ok else 1


def _show(prediction: Prediction) -> None:
    click.echo()
    for phase in prediction.phases:
        rate = phase.bytes / phase.took_us / 1000 if phase.took_us else 0.0
        click.echo(f"{phase.name}: {phase.bytes:,} bytes in {phase.took_us:,.1f} us, {rate:.2f} GB/s")
        _tell(phase)
        click.echo()
    for claim, is_so in prediction.held.items():
        click.echo(f"  {'yes' if is_so else 'NO '}  {claim}")
    click.echo(
        f"Predicted by profile {prediction.profile} over {prediction.fabric}; what GPU and host compute takes"
        " no time here. `nicemu model show PROFILE --explain` says where its values come from."
    )


def _tell(phase: Phase) -> None:
    columns = ("first us", "last us", "NIC", "what", "times", "bytes")
    print_table(
        columns,
        (
            (
                round(item.first_us, 2),
                round(item.last_us, 2),
                item.nic,
                item.told,
                item.count,
                item.bytes or None,
            )
            for item in phase.happenings
        ),
    )
