"""Arrow's compute functions, untyped: Arrow creates them at import, so pyright cannot know them."""

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
