"""HTTP client that sends requests to an endpoint and validates the fields of each response.

The complete response must arrive before a deadline. The size of a response is limited before and after decompression.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Annotated, Any

import httpcore
import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WrapValidator

from care_ops.errors import JudgeError
from judges.engines.forms import FORMS
from judges.redaction import MIN_SECRET, Secrets
from judges.spec import LIKE_A_KEY, OpenAIEngine, masked

MOST_BYTES = 4 * 2**20
"""Maximum size of a response in bytes, before and after decompression."""

_SCHEMES = ("Bearer", "Basic")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NOT_SENT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.ProxyError)


class NoAnswerError(Exception):
    """Error raised when a request gets no readable response; if ``sent`` is false, the request was not sent."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class LateError(NoAnswerError):
    """Error raised when the response to a request did not arrive in time."""


def _or_none(value: Any, handler: Any) -> Any:
    try:
        return handler(value)
    except ValidationError:
        return None


def _text_of_parts(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    texts = [part.get("text") for part in value if isinstance(part, dict) and part.get("type", "text") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


_Words = Annotated[str | None, WrapValidator(_or_none)]
_Count = Annotated[int, Field(ge=0, le=10**9)]
_CountOrNone = Annotated[_Count | None, WrapValidator(_or_none)]


class _Record(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class _Details(_Record):
    cached_tokens: _CountOrNone = None
    reasoning_tokens: _CountOrNone = None


_DetailsOrNone = Annotated[_Details | None, WrapValidator(_or_none)]


class Usage(_Record):
    """Token counts of a request; some endpoints include reasoning tokens only in ``total_tokens``."""

    prompt_tokens: _Count
    completion_tokens: _Count = 0
    total_tokens: _CountOrNone = None
    prompt_tokens_details: _DetailsOrNone = None
    completion_tokens_details: _DetailsOrNone = None
    prompt_cache_hit_tokens: _CountOrNone = None  # DeepSeek's

    @property
    def cached(self) -> int:
        """Number of prompt tokens that were in the endpoint's cache."""
        reported = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None
        return min(self.prompt_tokens, reported or self.prompt_cache_hit_tokens or 0)

    @property
    def reasoning(self) -> int:
        """Number of tokens that the model wrote for reasoning."""
        reported = self.completion_tokens_details.reasoning_tokens if self.completion_tokens_details else None
        return min(self.written, max(reported or 0, self.written - self.completion_tokens))

    @property
    def written(self) -> int:
        """Number of tokens that the model wrote, including reasoning."""
        return max(self.completion_tokens, (self.total_tokens or 0) - self.prompt_tokens)


class Message(_Record):
    """Message of a chat completion: the model's text or its refusal."""

    content: Annotated[str | None, BeforeValidator(_text_of_parts)] = None
    refusal: _Words = None


class Choice(_Record):
    """One answer (choice) in a chat completion."""

    message: Message
    finish_reason: _Words = None
    logprobs: Any = None


class Completion(_Record):
    """Fields of a chat completion that CARE reads."""

    choices: list[Choice] = Field(min_length=1)
    model: _Words = None
    usage: Annotated[Usage | None, WrapValidator(_or_none)] = None


@dataclass(frozen=True)
class Reply:
    """HTTP response, with header names in lower case and the content as parsed JSON or as text."""

    code: int
    headers: Mapping[str, str]
    content: Any

    @property
    def error(self) -> Mapping[str, Any]:
        """Error that the response reports, as a mapping that always has the key ``message``."""
        found: Any = self.content
        if isinstance(found, dict):
            found = found.get("error") or found.get("detail") or found.get("message") or found
        if isinstance(found, list) and found and isinstance(found[0], dict):  # a list of wrong fields
            place = found[0].get("loc")
            last = place[-1] if isinstance(place, list) and place else None
            return {"param": last, "message": f"{last}: {found[0].get('msg')}"}
        if isinstance(found, dict):
            message = found.get("message")
            return {**found, "message": message if isinstance(message, str) else json.dumps(found)}
        return {"message": str(found)}

    @property
    def failed(self) -> bool:
        """Whether the response reports an error; some endpoints report errors with status code 200."""
        return self.code != 200 or (isinstance(self.content, dict) and bool(self.content.get("error")))

    @property
    def status(self) -> int:
        """HTTP status code, or the code of the error in a response with status code 200."""
        named = self.error.get("code") if self.code == 200 else None
        return named if isinstance(named, int) and 400 <= named < 600 else self.code

    def completion(self) -> Completion:
        """Return the content as a chat completion, or raise ``NoAnswerError`` if the content is invalid."""
        try:
            return Completion.model_validate(self.content)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"])) or "the whole"
            raise NoAnswerError(f"the response isn't a chat completion ({place}: {error.errors()[0]['msg']})") from None


@dataclass
class _Clock(httpcore.NetworkBackend):
    """Network backend with one deadline for the whole response instead of a timeout for each read."""

    until: float = 0.0
    inner: httpcore.NetworkBackend = field(default_factory=httpcore.SyncBackend)

    def left(self, kind: type[httpcore.TimeoutException]) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise kind
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        left = self.left(httpcore.ConnectTimeout)
        return _Stream(self.inner.connect_tcp(host, port, left, local_address, socket_options), self)


@dataclass
class _Stream(httpcore.NetworkStream):
    inner: httpcore.NetworkStream
    clock: _Clock
    unsent: bytes = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.unsent:  # headers and body are sent together
            unsent, self.unsent = self.unsent, b""
            self.inner.write(unsent, self.clock.left(httpcore.WriteTimeout))
        return self.inner.read(max_bytes, self.clock.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.unsent += buffer

    def close(self) -> None:
        self.inner.close()

    def start_tls(self, ssl_context: Any, server_hostname: Any = None, timeout: float | None = None) -> _Stream:
        left = self.clock.left(httpcore.ConnectTimeout)
        return _Stream(self.inner.start_tls(ssl_context, server_hostname, left), self.clock)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


class Endpoint:
    """HTTP client of one endpoint, with one persistent connection for each concurrent request.

    Parameters
    ----------
    name : str
        Name of the judge, for messages.

    Raises
    ------
    JudgeError
        If an environment variable named in the judge's file is not set, a header or ``base_url`` is invalid, or the
        proxy cannot be used.
    """

    def __init__(self, name: str, engine: OpenAIEngine) -> None:
        headers, secrets = headers_of(name, engine)
        self.secrets = Secrets(secrets)
        self._form = FORMS[engine.form]
        self._headers = {"accept-encoding": "identity", **self._form.headers, **headers}
        try:
            address = urllib.parse.urlsplit(engine.base_url)
            if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
                raise ValueError
        except ValueError:
            raise JudgeError(
                f"judge {name!r}: base_url {engine.where!r} is not a URL; write base_url: https://HOST/v1"
            ) from None
        self._base = address._replace(path=address.path.rstrip("/"), fragment="")
        self._path = self._form.path.format(model=urllib.parse.quote(engine.model, safe="/"))
        self._proxy = proxy_of(engine.base_url)
        self._tls = httpx.create_ssl_context() if address.scheme == "https" else None
        self._timeout_s = engine.timeout_s
        self._all: list[httpcore.ConnectionPool] = []
        self._free: list[tuple[httpcore.ConnectionPool, _Clock]] = []

    def close(self) -> None:
        """Close all connections to the endpoint."""
        for pool in self._all:
            pool.close()

    def post(self, body: Mapping[str, Any]) -> Reply:
        """Send one chat request; return the response in OpenAI's format.

        Raises ``LateError`` after a timeout, and ``NoAnswerError`` if the response is missing or unreadable.
        """
        reply = self.call("POST", self._path, json.dumps(self._form.request(dict(body))).encode())
        if not reply.failed and isinstance(reply.content, dict):
            with suppress(KeyError, IndexError, TypeError, AttributeError):  # completion() refuses other forms
                reply = replace(reply, content=self._form.answer(reply.content))
        return reply

    def call(
        self, method: str, path: str, content: bytes = b"", kind: str = "application/json", timeout_s: float = 0.0
    ) -> Reply:
        """Send an HTTP request with content of the media type ``kind``; raise the same exceptions as ``post``."""
        with self._opened(method, path, content, kind, timeout_s) as response:
            headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in response.headers}
            text = _unpacked(response.iter_stream(), headers.get("content-encoding", ""))
        try:
            return Reply(response.status, headers, json.loads(text))
        except (ValueError, RecursionError):
            if response.status == 200:
                raise NoAnswerError(f"the response is not valid JSON: {text[:1000].decode(errors='replace')}") from None
            return Reply(response.status, headers, text[:100_000].decode(errors="replace"))

    def status(self, path: str) -> int:
        """Return the HTTP status code of a GET request to a path; raise the same exceptions as ``post``."""
        with self._opened("GET", path) as response:
            return response.status

    def lines(self, path: str, timeout_s: float) -> Iterator[bytes]:
        """Yield the lines of a file at the endpoint as they arrive; raise ``NoAnswerError`` if the file is missing."""
        with self._opened("GET", path, timeout_s=timeout_s) as response:
            if response.status != 200:
                raise NoAnswerError(f"HTTP {response.status} for {path}")
            rest = b""
            for chunk in response.iter_stream():
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
                if len(rest) > MOST_BYTES:
                    raise NoAnswerError(f"a line of {path} exceeds the limit of {MOST_BYTES:,} bytes; check base_url")
            yield rest

    @contextmanager
    def _opened(
        self, method: str, path: str, content: bytes = b"", kind: str = "application/json", timeout_s: float = 0.0
    ) -> Generator[httpcore.Response]:
        try:
            connection = self._free.pop()
        except IndexError:
            connection = self._connection()
        pool, clock = connection
        limit = max(timeout_s, self._timeout_s)
        clock.until = time.monotonic() + limit
        path, _, query = path.partition("?")
        query = "&".join(filter(None, (self._base.query, query)))
        url = self._base._replace(path=f"{self._base.path}{path}", query=query).geturl()
        headers = {"content-type": kind, **self._headers}
        try:
            with pool.stream(method, url, headers=list(headers.items()), content=content) as response:
                yield response
        except httpcore.TimeoutException as error:
            raise LateError(f"no response within {limit:g} s", sent=not isinstance(error, _NOT_SENT)) from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, OSError) as error:
            sent = not isinstance(error, _NOT_SENT)
            raise NoAnswerError(f"{type(error).__name__}: {error}", sent=sent) from error
        finally:
            self._free.append(connection)

    def _connection(self) -> tuple[httpcore.ConnectionPool, _Clock]:
        """Create a connection pool of size one; a larger pool would search all its connections for every request."""
        clock = _Clock()
        pool = httpcore.ConnectionPool(
            ssl_context=self._tls,
            proxy=self._proxy and httpcore.Proxy(str(self._proxy.url), self._proxy.raw_auth),
            max_connections=1,
            network_backend=clock,
        )
        self._all.append(pool)
        return pool, clock


def proxy_of(address: str) -> httpx.Proxy | None:
    """Return the proxy that environment variables such as ``HTTPS_PROXY`` set for a URL; None if there is no proxy.

    Raises ``JudgeError`` if the proxy cannot be used.
    """
    to, named = urllib.parse.urlsplit(address), urllib.request.getproxies()
    kind = to.scheme if named.get(to.scheme) else "all"
    proxy = named.get(kind)
    if not proxy or urllib.request.proxy_bypass(to.hostname or ""):
        return None
    with suppress(ValueError, httpx.InvalidURL):
        found = httpx.Proxy(proxy if "/" in proxy else f"http://{proxy}")
        if found.url.host and ("socks" not in found.url.scheme or find_spec("socksio")):
            return found
    raise JudgeError(
        f"CARE cannot use the proxy in the environment variable {kind.upper()}_PROXY; set it to http://HOST:PORT or "
        "unset it (a SOCKS proxy needs `pip install socksio`)"
    )


def headers_of(name: str, engine: OpenAIEngine) -> tuple[dict[str, str], list[str]]:
    """Return the HTTP headers of requests to a judge, and the secrets in the judge's file and environment variables.

    Raises ``JudgeError`` if an environment variable named in the file is not set, or a header is invalid.
    """

    def secret(variable: str, instead: str) -> str:
        if value := os.environ.get(variable, "").strip():
            return value
        raise JudgeError(f"judge {name!r}: the environment variable {variable} is not set; set it to {instead}")

    headers = dict[str, str]()
    secrets = list[str]()
    if engine.api_key_env is not None:
        key = secret(engine.api_key_env, "the endpoint's API key, or write api_key_env: null if it needs no key")
        secrets.append(key)
        header, value = FORMS[engine.form].key
        headers[header] = value.format(key=key)
    for header, value in engine.headers.items():
        for variable in _VARIABLE.findall(value):
            secrets.append(secret(variable, f"the value of the header {header}"))
        headers[header] = _VARIABLE.sub(lambda match: os.environ[match[1]].strip(), value)
        if LIKE_A_KEY.search(header):  # the file may hold the key itself
            secrets += [word for word in headers[header].split() if len(word) >= MIN_SECRET and word not in _SCHEMES]
    query = urllib.parse.parse_qsl(engine.base_url.partition("?")[2])
    secrets += [value for name, value in query if LIKE_A_KEY.search(name)]
    masked(engine.extra_body, fields := list[str]())
    secrets += [value for value in fields if len(value) >= MIN_SECRET]
    for header, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^`|~\w-]+", header, re.ASCII) or not re.fullmatch(r"[\x20-\x7e]*", value):
            raise JudgeError(
                f"judge {name!r}: the name or value of the header {header!r} has characters that HTTP does not allow; "
                "correct it in the judge's file, or correct the environment variable that holds the value"
            )
    return headers, secrets


def _unpacked(chunks: Iterable[bytes], encoding: str) -> bytes:
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise NoAnswerError(f"the response has encoding {encoding[:50]!r}; set the server's encoding to gzip or none")
    unpack = zlib.decompressobj(47) if encoding in ("gzip", "deflate") else None
    whole, came = bytearray(), 0
    for chunk in chunks:
        came += len(chunk)
        try:
            whole += chunk if unpack is None else unpack.decompress(chunk, MOST_BYTES + 1 - len(whole))
        except zlib.error as error:
            raise NoAnswerError("the response cannot be decompressed") from error
        if max(came, len(whole)) > MOST_BYTES:
            raise NoAnswerError(f"the response exceeds the limit of {MOST_BYTES:,} bytes; check base_url")
    return bytes(whole)
