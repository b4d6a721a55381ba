"""Requests made by hand: signed as botocore signs, then damaged on purpose."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.sqs.running import ADMIN

if TYPE_CHECKING:
    from penstock.sqs.auth.access_keys import AccessKey

JSON = "application/x-amz-json-1.0"


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The query code, which both protocols tell."""
        return self.headers.get("x-amzn-query-error", "").partition(";")[0]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Raw:
    """A request that can be changed after it was signed."""

    url: str
    method: str = "POST"
    target: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def send(self) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            connection.request(self.method, self.target, self.body, self.headers)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()


def unsigned(url: str, action: str, request: dict[str, Any] | bytes) -> Raw:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return Raw(
        url, headers={"x-amz-target": f"AmazonSQS.{action}", "content-type": JSON}, body=body
    )


def signed(
    url: str,
    action: str,
    request: dict[str, Any] | bytes,
    key: AccessKey = ADMIN,
    *,
    region: str = "us-east-1",
    service: str = "sqs",
    headers: dict[str, str] | None = None,
) -> Raw:
    raw = unsigned(url, action, request)
    raw.headers |= headers or {}
    return sign(raw, key, region=region, service=service)


def sign(
    raw: Raw, key: AccessKey = ADMIN, *, region: str = "us-east-1", service: str = "sqs"
) -> Raw:
    wanted = AWSRequest(raw.method, raw.url + raw.target, data=raw.body, headers=dict(raw.headers))
    SigV4Auth(Credentials(key.access_key, key.secret), service, region).add_auth(wanted)
    raw.headers = dict(wanted.headers.items())
    return raw


def presigned(url: str, query: str, key: AccessKey = ADMIN, *, expires: int = 60) -> Raw:
    wanted = AWSRequest("GET", f"{url}/?{query}")
    SigV4QueryAuth(Credentials(key.access_key, key.secret), "sqs", "us-east-1", expires).add_auth(
        wanted
    )
    found = urlsplit(wanted.url)
    return Raw(url, "GET", f"{found.path}?{found.query}")
