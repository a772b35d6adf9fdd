"""Hostile values, texts and files, drawn from a generator."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from typing import Any

TEXTS = (
    *("", " ", "é", "e\u0301", "\ud800", "\0", "\x1b[2J", "\u202e", "=1+1", "-", "@x", "nan", "inf", "-inf", "1e999"),
    *("0x1f", "1_000", "٣", "9" * 400, "2026-02-30", "0000-00-00", "99999-01-01", "2026-11-24T00:00:00+99:99"),
    *("A" * 300, "é" * 200, "../../x", "/etc/passwd", "a/b", "con", "null", "true", "yes", "[" * 3000, '{"a":' * 3000),
    *("{% include 'x' %}", "{{ x }}", "{{ 'a' * 10**10 }}", "'", '"', "\r\n", ",", ";", "<script>", "`", "|", "#", "%"),
)
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 1e-320, float("nan"), float("inf"))
VALUES = (*TEXTS, *NUMBERS, None, True, False, [], {}, [[]], {"": None}, [None], {"a": {"b": [1]}}, [1, "a", None])
CODES = tuple(bytes([k]) for k in (0, 1, 10, 34, 44, 91, 127, 128, 255))


class FindingError(AssertionError):
    """Error for an input that CARE should refuse, but accepted or refused without a message of one sentence."""


def value(rng: random.Random) -> Any:
    """Draw any value that JSON or YAML can hold."""
    if rng.random() < 0.03:
        deep: Any = 1
        for _ in range(rng.choice([60, 150])):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    return copy.deepcopy(rng.choice(VALUES))


def spoilt(document: Any, rng: random.Random) -> Any:
    """Copy a document with one to three of its values, keys or lists changed."""
    changed = json.loads(json.dumps(document))
    for _ in range(rng.randint(1, 3)):
        holders = list(_holders(changed))
        if not holders:
            return value(rng)
        holder = rng.choice(holders)
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        kind = rng.random()
        if kind < 0.6:
            holder[key] = value(rng)
        elif kind < 0.7:
            del holder[key]
        elif kind < 0.8:
            holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}
        elif isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder.pop(key) if rng.random() < 0.5 else value(rng)
        else:
            holder.insert(key, rng.choice([holder[key], value(rng)]))
    return changed


def _holders(node: Any) -> Any:
    if isinstance(node, (dict, list)):
        if node:
            yield node
        for child in node.values() if isinstance(node, dict) else node:
            yield from _holders(child)


def as_json(document: Any, rng: random.Random) -> bytes:
    """Encode a document as JSON with the mistakes of careless programs."""
    try:
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):
        return b"[" * 500
    return text.encode("utf-8", "surrogatepass")


def bytes_of(content: bytes, rng: random.Random) -> bytes:
    """Flip, cut off, double or insert a few bytes."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        place = rng.randrange(len(changed) + 1)
        kind = rng.random()
        if kind < 0.4 and place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
        elif kind < 0.55:
            changed[place : place + rng.choice([1, 2, 4, 8])] = rng.choice(CODES) * rng.choice([1, 2, 4, 8])
        elif kind < 0.65:
            del changed[place:]
        elif kind < 0.75:
            del changed[place : place + rng.choice([1, 3, 50])]
        elif kind < 0.85:
            changed[place:place] = changed[max(0, place - rng.choice([1, 20, 300])) : place]
        else:
            changed[place:place] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    return bytes(changed)


def archive_of(content: bytes, rng: random.Random) -> bytes:
    """Corrupt one member of a zip archive, or the archive itself."""
    if rng.random() < 0.3:
        return bytes_of(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if _readable(archive, name)}
    if not members:  # all are packed by zstandard
        return bytes_of(content, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as changed:
        victim = rng.choice(list(members))
        for name, member in members.items():
            changed.writestr(name, member if name != victim else member_of(member, rng))
    return out.getvalue()


def _readable(archive: zipfile.ZipFile, name: str) -> bool:
    return archive.getinfo(name).compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def member_of(content: bytes, rng: random.Random) -> bytes:
    """Corrupt a member of an archive: the structure of JSON, the cells of XML, or the bytes of any file."""
    if rng.random() < 0.7:
        try:
            return as_json(spoilt(json.loads(content), rng), rng)
        except ValueError:
            pass
    if rng.random() < 0.5:
        cells = (b"A1", b"B2", b"C3", b"A2")
        return content.replace(
            rng.choice(cells), rng.choice([b"XFD1048576", b"A1048576", b"ZZZ99999999", b"", b"A0", b"XFD2"]), 1
        )
    return bytes_of(content, rng)


def text(content: str, rng: random.Random) -> str:
    """Insert hostile pieces into a text."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        place = rng.randrange(len(content) + 1)
        content = content[:place] + rng.choice(TEXTS) + content[place + rng.choice([0, 0, 1, 5, 40]) :]
    return content
