"""Requests to an application in this very process: no port, no thread, no server."""

from __future__ import annotations

import asyncio

import httpx2
from fastapi import FastAPI


class InProcessTransport(httpx2.BaseTransport):
    """Carries a synchronous client's requests to an ASGI application on a private event loop.

    Args:
        app: The application; what it fails on arrives as its own 500 answer.
    """

    def __init__(self, app: FastAPI) -> None:
        self._inner = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends one request and waits for the whole answer."""
        request.read()
        return self._runner.run(self._send(request))

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        body = await answer.aread()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=body)

    def close(self) -> None:
        """Ends the event loop."""
        self._runner.close()
