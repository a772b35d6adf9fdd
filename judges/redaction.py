"""Removal of API keys from untrusted texts, such as answers, error messages and names of models."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import ceil, floor

UNNAMED = "unnamed"

MIN_SECRET = 6
"""Minimum length of a fragment of a secret that is removed; shorter secrets are removed only as whole words."""

_MIN_REPEATED = 12
_SENTENCE = 250
_NAMES_A_KEY = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?![A-Z])", re.IGNORECASE)
_ESCAPE = re.compile(
    r"\\+(?:u([0-9a-f]{4})|x([0-9a-f]{2})|([^ux]))|[%=](?:25)*([0-9a-f]{2})|(&\#?\w{1,8};)", re.IGNORECASE
)
_PACKED = re.compile(r"[A-Za-z0-9+/_-]{12,}")
_HEX = re.compile(r"[0-9A-Fa-f]{12,}")
_MOST_LAYERS = 2
"""Number of nested layers of base64 or hexadecimal digits that are decoded."""


class _Visible(dict[int, str]):
    """Mapping from each character code to its NFKC form, or to "" for invisible characters and white space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        plain = unicodedata.normalize("NFKC", character)
        unseen = character.isspace() or unicodedata.category(character) in ("Cc", "Cf")
        self[code] = "" if unseen else plain if len(plain) == 1 else character
        return self[code]


_VISIBLE = _Visible()


@dataclass(frozen=True)
class _View:
    """Decoded form of a text, with the span of each character in the original text."""

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, *, unescaped: bool = False) -> _View:
        """Return a view of a text; if ``unescaped``, the escapes of JSON, URLs and HTML are decoded."""
        characters = _characters(text) if unescaped else ((c, k, k + 1) for k, c in enumerate(text))
        seen = [(_VISIBLE[ord(c)], begin, end) for c, begin, end in characters]
        kept = [(c, (begin, end)) for c, begin, end in seen if c]
        return cls("".join(c for c, _ in kept), [span for _, span in kept])

    @property
    def lower(self) -> str:
        """Text in lower case with unchanged length; U+0130 is kept, because its lower case has two characters."""
        lower = self.text.lower()
        if len(lower) == len(self.text):
            return lower
        return "".join(c.lower() if len(c.lower()) == 1 else c for c in self.text)


def _characters(text: str) -> Iterator[tuple[str, int, int]]:
    """Decode the escapes in a text; yield each character and the start and end of its span in the text."""
    done = 0
    for match in _ESCAPE.finditer(text):
        yield from ((text[k], k, k + 1) for k in range(done, match.start()))
        digits = match[1] or match[2] or match[4]
        meant = chr(int(digits, 16)) if digits else html.unescape(match[5]) if match[5] else match[3]
        blank = bool(match[3]) and meant in "bfnrt"  # for example a line break
        yield from ((c, *match.span()) for c in (" " if blank else meant))
        done = match.end()
    yield from ((text[k], k, k + 1) for k in range(done, len(text)))


def _unpacked(run: str) -> Iterator[tuple[str, int, Fraction]]:
    """Decode base64 or hexadecimal digits at every offset; yield the text, its offset and the digits per byte."""
    for digits in _HEX.finditer(run):
        for begin in (digits.start(), digits.start() + 1):
            end = digits.end() - (digits.end() - begin) % 2
            yield bytes.fromhex(run[begin:end]).decode("latin-1"), begin, Fraction(2)
    standard = run.translate({ord("-"): "+", ord("_"): "/"})
    for begin in range(4):
        end = len(run) - (len(run) - begin) % 4
        yield base64.b64decode(standard[begin:end]).decode("latin-1"), begin, Fraction(4, 3)


class Secrets:
    """Filter that removes secrets, fragments of secrets and their encoded forms from texts.

    A fragment is six consecutive characters. Case, spaces, line breaks and invisible characters are ignored. Escapes
    of JSON, URLs and HTML, hexadecimal digits and base64 are decoded.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._short: list[re.Pattern[str]] = []
        self._parts = set[str]()
        self._longest = 0
        for secret in filter(None, secrets):
            if len(secret) < MIN_SECRET:
                self._short.append(re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)"))
                continue
            raw = secret.encode("utf-8", "surrogatepass")
            packed = [base64.b64encode(b"\0" * k + raw).decode()[-(-4 * k // 3) :].rstrip("=") for k in range(3)]
            packed += [form.translate({43: "-", 47: "_"}) for form in packed]
            quoted = urllib.parse.quote(secret, safe="", errors="surrogatepass")
            for form in {secret, quoted, json.dumps(secret)[1:-1], raw.hex(), *packed}:
                self._longest = max(self._longest, len(form))
                self._parts |= set(_windows(_View.of(form).lower))

    @classmethod
    def of_environment(cls) -> Secrets:
        """Return a filter that removes the values of environment variables whose names suggest an API key."""
        named = [value.strip() for name, value in os.environ.items() if _NAMES_A_KEY.search(name)]
        return cls(value for value in named if len(value) >= MIN_SECRET and not value.startswith("/"))

    def hide(self, text: str, limit: int = _SENTENCE) -> str:
        """Replace each secret in a text by ``***``; return at most ``limit`` characters."""
        if not self._parts and not self._short:
            return text[:limit]
        text = text[: limit + 8 * max(self._longest, MIN_SECRET)]
        hidden = bytearray(len(text))
        for begin, end in self._found(text):
            hidden[begin:end] = b"\1" * (end - begin)
        groups = groupby(zip(text, hidden, strict=True), key=lambda pair: pair[1])
        return "".join("***" if is_hidden else "".join(c for c, _ in pairs) for is_hidden, pairs in groups)[:limit]

    def name(self, text: str | None) -> str:
        """Hide the secrets in a model's name; return ``unnamed`` if the name is long or has unusual characters."""
        hidden = self.hide(text or "", 200)
        return hidden if re.fullmatch(r"[\w.:/-]{1,100}", hidden) else UNNAMED

    def _found(self, text: str, layers: int = _MOST_LAYERS) -> Iterator[tuple[int, int]]:
        for pattern in self._short:
            yield from (match.span() for match in pattern.finditer(text))
        for view in [_View.of(text), *([_View.of(text, unescaped=True)] if _ESCAPE.search(text) else [])]:
            for k, window in enumerate(_windows(view.lower)):
                if window in self._parts:
                    yield view.spans[k][0], view.spans[k + MIN_SECRET - 1][1]
            for match in _PACKED.finditer(view.text) if layers else ():
                for unpacked, offset, digits in _unpacked(match[0]):
                    for begin, end in self._found(unpacked, layers - 1):
                        first = match.start() + offset + floor(begin * digits)
                        yield view.spans[first][0], view.spans[match.start() + offset + ceil(end * digits) - 1][1]


def _windows(text: str) -> Iterator[str]:
    return (text[k : k + MIN_SECRET] for k in range(len(text) - MIN_SECRET + 1))


def unrepeated(text: str, asked: str) -> str:
    """Put ``***`` in place of each passage that copies 12 or more characters of ``asked``, the prompt that was sent."""
    forms = "\n".join([asked, json.dumps(asked), json.dumps(asked, ensure_ascii=False)])
    begins = [text[k : k + _MIN_REPEATED] in forms for k in range(len(text) - _MIN_REPEATED + 1)]
    within = (any(begins[max(0, k - _MIN_REPEATED + 1) : k + 1]) for k in range(len(text)))
    return re.sub("\0+", "***", "".join("\0" if hidden else text[k] for k, hidden in enumerate(within)))
