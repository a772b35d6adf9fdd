"""Which addresses a workspace may have as its storage, and where a data folder keeps what it knows of its store."""

from typing import IO
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az", "file")
"""Kinds of stores: S3 and what speaks its language, Google Cloud Storage, Azure's blobs, a folder."""

INDEX_FOLDER = "store"
"""In the data folder: what it knows of the store that it is a copy of, and the lock of the store's lease."""


def usable_address(address: str) -> str:
    """The address without a slash at its end.

    Raises ``ValueError`` where its scheme is unknown, it names no bucket, or it holds credentials; they are not
    repeated in the message.
    """
    parts = urlsplit(address)
    is_folder = parts.scheme == "file"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(
            f"the {parts.scheme} address has more than a bucket and a path; credentials are not written into files, "
            "give them by the environment of the process"
        )
    if parts.scheme not in SCHEMES:
        names = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"{address} is an address of an unknown kind; give a path of this machine, or one of {names}")
    if is_folder == bool(parts.netloc) or (is_folder and parts.path in ("", "/")):
        expected = "folder; give it as file:///path/to/folder" if is_folder else "bucket; give it as s3://bucket/path"
        raise ValueError(f"{address} names no {expected}")
    if "//" in parts.path or {".", ".."} & set(parts.path.split("/")):
        raise ValueError(f"{address} has a folder without a name of its own in its path; write it without // and ..")
    return address.rstrip("/")


def locks_at_once(file: IO[str] | int, mode: int) -> bool:
    """Whether a lock (``fcntl.LOCK_EX`` or ``LOCK_SH``) on an open file could be had without waiting.

    The system keeps it until the file is closed.
    """
    import fcntl  # which Windows lacks, where tables are fitted all the same

    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
