"""Dagster's UI for browsers on this machine, started by ``python -m orchestration.webserver``."""

import sys
from functools import partial
from typing import Any


def own_pages(app: Any) -> Any:
    """Wrap an ASGI app to refuse cross-site requests and GraphQL over GET, and to forbid framing by other sites."""
    from starlette.responses import PlainTextResponse
    from starlette.websockets import WebSocketClose

    async def unframed(send: Any, message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"x-frame-options", b"SAMEORIGIN")]}
        await send(message)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        reason = refusal_of(scope)
        if not reason:
            return await app(scope, receive, partial(unframed, send))
        refused = PlainTextResponse(f"Refused: {reason}; open the URL that `care ui` printed.", 403)
        return await (refused if scope["type"] == "http" else WebSocketClose(1008))(scope, receive, send)

    return answer


def refusal_of(scope: Any) -> str:
    """Return the reason to refuse a request, or an empty string if it comes from this server's pages or a program.

    Dagster accepts requests from any origin, so another site could launch runs through a user's browser. The check
    compares parsed headers, methods and paths, so an encoded URL or a repeated header cannot bypass the check.
    """
    from starlette.datastructures import Headers

    if scope["type"] not in ("http", "websocket"):
        return ""
    headers, method = Headers(scope=scope), scope.get("method", "GET")
    of_graphql = "graphql" in scope["path"].split("/")
    hosts, sites = headers.getlist("host"), headers.getlist("sec-fetch-site")
    if len(hosts) != 1:
        return "the request must have exactly one Host header"
    if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
        return "the request comes from a page of another origin"
    # A link on another site or in a mail may open a page of this server, because opening a page changes nothing.
    opens_page = method == "GET" and headers.get("sec-fetch-dest") == "document" and not of_graphql
    if not opens_page and not {"same-origin", "none"}.issuperset(sites):
        return "the request comes from a page of another site"
    if scope["type"] == "websocket" or method in ("GET", "HEAD"):
        shows_graphiql = not scope["query_string"] and "text/html" in headers.get("accept", "")
        return "" if scope["type"] == "websocket" or not of_graphql or shows_graphiql else "GraphQL needs POST"
    if [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")] != ["application/json"]:
        return "the request's content type must be application/json"
    return ""


def main(arguments: list[str]) -> None:
    """Run Dagster's webserver with the given command-line arguments, for browsers on this machine only."""
    from dagster_webserver.cli import cli
    from dagster_webserver.webserver import DagsterWebserver
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    theirs = DagsterWebserver.build_middleware
    ours = [Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]), Middleware(own_pages)]
    DagsterWebserver.build_middleware = lambda self: [*ours, *theirs(self)]
    cli(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
