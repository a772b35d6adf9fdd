"""The hash of a plain value, by which versions and keys of a workspace are told apart.

Belongs here: that one function. Does not: what is hashed (``versions``, ``sources``), hashes of files
(``warehouse.storage``).
"""

import hashlib
import json


def content_hash(value: object) -> str:
    """Hash of anything that can be written as JSON; other values count as their text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
