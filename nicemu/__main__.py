# SPDX-License-Identifier: Apache-2.0
"""`python -m nicemu`: the same command as `nicemu`."""


def run() -> None:
    """Run the command line. Ctrl-C ends it with status 130, also while it is being loaded."""
    try:
        from nicemu.cli import main

        main(prog_name="nicemu")
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # 128 and the number of SIGINT, as shells have it


if __name__ == "__main__":
    run()
