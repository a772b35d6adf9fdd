"""Arrow's compute functions, typed as ``Any`` because Arrow creates the functions at import time."""

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
