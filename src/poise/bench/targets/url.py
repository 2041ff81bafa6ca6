"""Any URL with a body, or any unary gRPC method with a message: no model, no signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from poise.bench.payloads.template import Template
from poise.bench.traffic import WireRequest
from poise.client.calls import Headers

DEFAULT_PORTS = {"http": 80, "https": 443}
GRPC_SCHEMES = ("grpc", "grpcs")


@dataclass(frozen=True, slots=True)
class UrlOptions:
    """What is sent to a URL."""

    method: str = ""
    """Empty: POST when there is a body, else GET."""
    body: bytes = b""
    content_type: str = "application/json"
    grpc_method: str = ""
    """/package.Service/Method, over gRPC."""
    headers: Headers = ()
    fill: bool = True
    """Whether placeholders in path and body are filled."""


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """Where requests go: the server for the load generator, and the path there."""

    url: str
    path: str
    options: UrlOptions

    def requests(self, seed: int) -> Iterator[WireRequest]:
        """Requests with placeholders filled, without end where there are any, else one. Raises ValueError."""
        path = Template(self.path.encode(), seed, self.options.fill)
        body = Template(self.options.body, seed + 1, self.options.fill and not self._is_grpc)
        while True:
            yield WireRequest(path.render().decode(), body.render(), self._headers(), self._method())
            if not path.varies and not body.varies:
                return

    @property
    def _is_grpc(self) -> bool:
        return self.url.startswith(("grpc://", "grpcs://"))

    def _method(self) -> str:
        return self.options.method.upper() or ("POST" if self.options.body or self._is_grpc else "GET")

    def _headers(self) -> Headers:
        given = {name for name, _ in self.options.headers}
        if self._is_grpc or not self.options.body or "content-type" in given:
            return self.options.headers
        return (("content-type", self.options.content_type), *self.options.headers)


def url_target(text: str, options: UrlOptions) -> UrlTarget:
    """Where a URL leads. Raises ValueError, saying how to mend it."""
    parts = urlsplit(text)
    if parts.scheme in GRPC_SCHEMES:
        return _grpc(text, options)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        raise ValueError(
            f"{text!r} is no URL to send load to: expected http://HOST:PORT/PATH or https://HOST:PORT/PATH"
        )
    if options.grpc_method:
        raise ValueError(f"--grpc-method needs a server grpc://HOST:PORT, got {text!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return UrlTarget(f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORTS[parts.scheme]}", path, options)


def _grpc(text: str, options: UrlOptions) -> UrlTarget:
    service, _, method = options.grpc_method.removeprefix("/").rpartition("/")
    if not service or not method or "/" in service:
        got = repr(options.grpc_method) if options.grpc_method else "none"
        raise ValueError(f"over gRPC a call needs --grpc-method /package.Service/Method; got {got}")
    if options.method:
        raise ValueError("every gRPC call is a POST: leave --method out")
    return UrlTarget(text, f"/{service}/{method}", options)
