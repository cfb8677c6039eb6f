# SPDX-License-Identifier: Apache-2.0
"""What is raised where a program needs the interpreter."""


class NotCompiled(Exception):  # noqa: N818  an answer, not a fault
    """The program asks for what kernels do not do; the interpreter runs it."""
