"""Arrow's compute functions without types, because Arrow creates the functions at import."""

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
