"""Checks of the URLs of remote stores, and locks on local files."""

from typing import IO
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az", "file")
"""URL schemes of stores: S3 and compatible services, Google Cloud Storage, Azure Blob Storage, local folder."""

INDEX_FOLDER = "store"
"""Name of the subfolder for the index and the lease lock, in a data folder that is a copy of a store."""


def usable_address(address: str) -> str:
    """Check the URL of a store, and return it without a trailing slash.

    Raises ``ValueError`` if the scheme is unknown, the bucket is missing, or the URL contains credentials; the message
    does not contain the credentials.
    """
    parts = urlsplit(address)
    is_folder = parts.scheme == "file"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(
            f"the {parts.scheme} URL may contain only a bucket and a path; remove everything else, and set credentials "
            "in environment variables"
        )
    if parts.scheme not in SCHEMES:
        names = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(
            f"{address}: the scheme of this URL is unknown; give a local path, or a URL with one of the schemes {names}"
        )
    if is_folder == bool(parts.netloc) or (is_folder and parts.path in ("", "/")):
        expected = "folder; write file:///path/to/folder" if is_folder else "bucket; write s3://bucket/path"
        raise ValueError(f"{address} has no {expected}")
    if "//" in parts.path or {".", ".."} & set(parts.path.split("/")):
        raise ValueError(f"{address} has an empty or relative folder in its path; remove // and .. from the path")
    return address.rstrip("/")


def locks_at_once(file: IO[str] | int, mode: int) -> bool:
    """Try to lock an open file (``fcntl.LOCK_EX`` or ``LOCK_SH``); return False if another process holds the lock."""
    import fcntl  # not available on Windows, which can still fit tables

    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
