"""``python -m orchestration.webserver``: what ``care ui`` runs, Dagster's UI for this machine's own browser alone."""

import sys
from functools import partial
from typing import Any

from orchestration.dagster_internals import run_dev


def own_pages(app: Any) -> Any:
    """Refuse what another site's page asks for through a person's browser, changes by GET, and a place in its frame."""
    from starlette.responses import PlainTextResponse
    from starlette.websockets import WebSocketClose

    async def alone(send: Any, message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"x-frame-options", b"SAMEORIGIN")]}
        await send(message)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        foreign = headers.get(b"origin") not in (None, b"http://" + headers.get(b"host", b""))
        by_get = scope.get("method") != "POST" and b"query=" in scope.get("query_string", b"").lower()
        if foreign or (by_get and scope["path"].endswith("/graphql")):
            refused = PlainTextResponse("only pages from here are answered; open the address that was printed", 403)
            await (refused if scope["type"] == "http" else WebSocketClose(1008))(scope, receive, send)
        else:
            await app(scope, receive, partial(alone, send))

    return answer


def main(arguments: list[str]) -> None:
    """Run ``dagster dev``, or the webserver that it starts."""
    if "dev" in arguments[:2]:
        place = arguments.index("dev")
        run_dev(arguments[place + 1 :], [__spec__.name, *arguments[:place]])
        return
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
