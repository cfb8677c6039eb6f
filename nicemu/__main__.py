# SPDX-License-Identifier: Apache-2.0
"""`python -m nicemu`: the same command as `nicemu`."""

import errno
import os
import sys


def run() -> None:
    """Run the command line.

    Ctrl-C ends it with status 130, also while it is being loaded; a full disk behind stdout with 1.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what gRPC says on stderr is said by errors, too
    try:
        from nicemu.cli import main

        main(prog_name="nicemu")
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # 128 and the number of SIGINT, as shells have it
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"Error: nothing more can be written: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    run()
