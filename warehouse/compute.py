"""Arrow's compute functions, typed as ``Any``: Arrow creates them at import, so type checkers do not know them."""

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
