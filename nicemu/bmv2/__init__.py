# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON, what p4c's back end for simple_switch writes, to the IR that the pipeline runs.

Format: p4lang/behavioral-model, "BMv2 JSON input format", version 2. What is missing is refused, by its path
in the file, with "not supported by nicemu yet".
"""

from .described import as_described
from .document import Bmv2Error
from .loader import Loaded, is_bmv2, load_bmv2, load_bmv2_text

__all__ = ["Bmv2Error", "Loaded", "as_described", "is_bmv2", "load_bmv2", "load_bmv2_text"]
