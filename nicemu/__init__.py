# SPDX-License-Identifier: Apache-2.0
"""nicemu: a SmartNIC offload emulator and a framework for NIC firmware."""

__version__ = "0.1.0"
