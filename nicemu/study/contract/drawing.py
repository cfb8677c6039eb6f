# SPDX-License-Identifier: Apache-2.0
"""Figures, each as PNG and SVG, the same bytes for the same results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nicemu.errors import UsageError


def pyplot() -> Any:  # noqa: ANN401 - a module
    """Return matplotlib's, made deterministic. Raises: UsageError if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError(
            "plots need matplotlib, which is not installed: pip install 'nicemu[plots]'"
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "nicemu"
    matplotlib.rcParams["text.parse_math"] = False  # a $ in the name of a trace is a $
    from matplotlib import pyplot

    return pyplot


@contextmanager
def figure(folder: Path, name: str, written: list[Path], *, rows: int = 1, columns: int = 1) -> Iterator[Any]:
    """Have a figure drawn, `with … as axes` (an array of them for several), and saved as `name` in `folder`.

    The files come into `written`. Raises: UsageError if the folder cannot be written.
    """
    plt = pyplot()
    size = (8 if columns == 1 else 5 * columns), (5 if rows == 1 else 3.4 * rows)
    drawn, axes = plt.subplots(rows, columns, figsize=size, layout="constrained")
    try:
        yield axes
        folder.mkdir(parents=True, exist_ok=True)
        for path, about in (
            (folder / f"{name}.png", {"Software": None}),
            (folder / f"{name}.svg", {"Date": None}),
        ):
            drawn.savefig(path, metadata=about, dpi=120)
            written.append(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        plt.close(drawn)


def legend_below(axes: Any, columns: int = 2) -> None:  # noqa: ANN401
    """Put the legend of a figure under it, and a light grid into it."""
    axes.grid(visible=True, color="0.92")
    axes.set_axisbelow(True)
    axes.figure.legend(loc="outside lower center", ncols=columns, fontsize="small")
