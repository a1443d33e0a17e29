"""What a program can ask of the host, as Python functions."""

import json as _json

from componentize_py_types import Err as _Err
from wit_world.imports import host as _host

__all__ = ["HTTPDenied", "HTTPError", "HTTPResponse", "http_get", "http_request"]


class HTTPError(OSError):
    """A request failed before a response arrived; `code` is the reason in one word."""

    def __init__(self, message="", code="failed"):
        super().__init__(message)
        self.code = code


class HTTPDenied(HTTPError, PermissionError):
    """The policy of this sandbox refuses the request."""


class HTTPResponse:
    """The response to a request, of any status."""

    def __init__(self, status, reason, headers, body):
        self.status = status
        self.reason = reason
        # The last of several headers of one name; `header_list` has all.
        self.headers = {name.lower(): value for name, value in headers}
        self.header_list = headers
        self.body = body

    @property
    def ok(self):
        return 200 <= self.status < 300

    @property
    def text(self):
        kind = self.headers.get("content-type", "")
        _, found, charset = kind.partition("charset=")
        try:
            return self.body.decode(charset.strip("\"' ;") if found else "utf-8", "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")

    def json(self):
        return _json.loads(self.body)

    def __repr__(self):
        return "<HTTPResponse {} {}>".format(self.status, self.reason)


def http_request(method, url, *, headers=None, body=None, json=None):
    """Makes one request and returns its response. Redirects are not followed.

    Raises HTTPDenied if the policy refuses the request, and HTTPError if no response arrives.
    """
    pairs = list(headers.items() if hasattr(headers, "items") else headers or [])
    if json is not None:
        if body is not None:
            raise TypeError("a request has a body or json, not both")
        body = _json.dumps(json)
        if not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("Content-Type", "application/json"))
    if body is None:
        body = b""
    elif isinstance(body, str):
        body = body.encode("utf-8")
    elif not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("the body is bytes or str, not {}".format(type(body).__name__))
    for text in [method, url] + [part for pair in pairs for part in pair]:
        if not isinstance(text, str):
            raise TypeError("method, url and headers are str, not {}".format(type(text).__name__))
    listed = [_host.Header(name, value) for name, value in pairs]
    try:
        answer = _host.send_request(_host.Request(method, url, listed, bytes(body)))
    except _Err as error:
        failure = error.value
        code = failure.kind.name.lower()
        if code == "invalid":
            raise ValueError(failure.message) from None
        raise (HTTPDenied if code == "denied" else HTTPError)(failure.message, code) from None
    found = [(header.name, header.value) for header in answer.headers]
    return HTTPResponse(answer.status, answer.reason, found, answer.body)


def http_get(url, *, headers=None):
    """Requests a URL with GET and returns the response."""
    return http_request("GET", url, headers=headers)


def ask(line):
    """Sends one line of JSON to the tool broker and returns its answer."""
    try:
        return _host.call_broker(line)
    except _Err as error:
        raise OSError(error.value) from None
