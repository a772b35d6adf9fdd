"""URLs of stores, and locks on files of this machine."""

from typing import IO
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az", "file")
"""URL schemes of stores: S3 and compatible services, Google Cloud Storage, Azure Blob Storage, a folder."""

INDEX_FOLDER = "store"
"""Name of the folder with the index and the lease lock, in a data folder that is a copy of a store."""


def usable_address(address: str) -> str:
    """Return the URL of a store without a final slash.

    Raises ``ValueError`` if the scheme is unknown, the bucket is missing, or the URL contains credentials; the message
    does not repeat the credentials.
    """
    parts = urlsplit(address)
    is_folder = parts.scheme == "file"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(
            f"the {parts.scheme} URL must contain only a bucket and a path; remove the rest, and set credentials in "
            "environment variables only"
        )
    if parts.scheme not in SCHEMES:
        names = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(
            f"{address}: the scheme of this address is unknown; give a local path, or an address with one of the "
            f"schemes {names}"
        )
    if is_folder == bool(parts.netloc) or (is_folder and parts.path in ("", "/")):
        expected = "folder; give it as file:///path/to/folder" if is_folder else "bucket; give it as s3://bucket/path"
        raise ValueError(f"{address} has no {expected}; add it")
    if "//" in parts.path or {".", ".."} & set(parts.path.split("/")):
        raise ValueError(f"{address} has an empty or relative folder in its path; write it without // and ..")
    return address.rstrip("/")


def locks_at_once(file: IO[str] | int, mode: int) -> bool:
    """Lock an open file (``fcntl.LOCK_EX`` or ``LOCK_SH``); return False if another process holds the lock."""
    import fcntl  # not available on Windows, which can still fit tables

    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
