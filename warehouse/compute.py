"""Arrow's compute functions under a name that pyright lets pass: they are made at import, so it does not know them."""

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
