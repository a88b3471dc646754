"""Run the MCP server: over standard input and output, or over HTTP on loopback, elsewhere only with a token."""

from __future__ import annotations

import hmac
import logging
import sys
from typing import TYPE_CHECKING

import anyio

from scrubjay.addresses import is_loopback, listen
from scrubjay.errors import SettingsError
from scrubjay.hanging_up import ended_by_signals
from scrubjay.mcp_server import create_mcp_server

if TYPE_CHECKING:
    import socket

    from mcp.server import MCPServer
    from mcp.server.auth.provider import AccessToken
    from starlette.applications import Starlette

    from scrubjay.memory import Memory

SHORTEST_TOKEN = 16  # characters
ISSUER = "https://scrubjay.invalid"  # named by the SDK's settings and shown nowhere: a token here comes from no issuer


class OneToken:
    """Takes one token as proof (`mcp.server.auth.provider.TokenVerifier`)."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        from mcp.server.auth.provider import AccessToken

        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return None
        return AccessToken(token=token, client_id="token", scopes=[])


def serve_stdio(memory: Memory) -> None:
    """Serve one client on standard input and output until it hangs up or a signal comes; logs go to standard error."""
    with ended_by_signals():
        create_mcp_server(memory).run("stdio")


def serve_http(memory: Memory, *, host: str, port: int, token: str | None = None) -> None:
    """Serve streamable HTTP at /mcp until stopped; port 0 is any that is free.

    Raise SettingsError for an address that others can reach and no token, and for a token that is easily guessed.
    """
    require_safe(host, token)
    with listen(host, port) as listener:
        anyio.run(run_http, create_http_app(memory, host=host, token=token), listener)


def require_safe(host: str, token: str | None) -> None:
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise SettingsError(
            f"the token has {len(token)} characters, {SHORTEST_TOKEN} at least are needed: "
            "make one with `python -c 'import secrets; print(secrets.token_urlsafe())'`"
        )
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"{host} can be reached from other machines, and no token is set: set SCRUBJAY_MCP_TOKEN, which clients "
            "then send as a bearer token, or serve on 127.0.0.1"
        )


def create_http_app(memory: Memory, *, host: str, token: str | None = None) -> Starlette:
    """Make the ASGI application; a browser's page can't reach it through another name of this machine."""
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.transport_security import TransportSecuritySettings

    server: MCPServer[object] = create_mcp_server(memory)
    if token is not None:
        auth = AuthSettings.model_validate({"issuer_url": ISSUER, "resource_server_url": None})
        server = create_mcp_server(memory, auth=auth, token_verifier=OneToken(token))
    names = ["127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_loopback(host),
        allowed_hosts=[each for name in names for each in (name, f"{name}:*")],
        allowed_origins=[each for name in names for each in (f"http://{name}", f"http://{name}:*")],
    )
    return server.streamable_http_app(host=host, transport_security=security)


async def run_http(app: Starlette, listener: socket.socket) -> None:
    import uvicorn

    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    host, port = listener.getsockname()[:2]
    sys.stderr.write(f"Serving MCP at http://{f'[{host}]' if ':' in host else host}:{port}/mcp\n")
    sys.stderr.flush()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    await server.serve(sockets=[listener])
