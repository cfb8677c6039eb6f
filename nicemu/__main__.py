# SPDX-License-Identifier: Apache-2.0
"""`python -m nicemu`: the same command as `nicemu`."""

from nicemu.cli import main

if __name__ == "__main__":
    main(prog_name="nicemu")
