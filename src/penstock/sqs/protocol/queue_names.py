"""Queue URLs, ARNs and accounts: every form is understood, one is given out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote

DEFAULT_ACCOUNT = "000000000000"
DEFAULT_REGION = "us-east-1"

_ACCOUNT = re.compile(r"\d{12}", re.ASCII)
_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+)+-\d+", re.ASCII)
_NAME = re.compile(r"(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?", re.ASCII)
_ADDRESS = re.compile(r"[a-z]+://([^/]*)(/[^?#]*)?", re.IGNORECASE)
_HOSTS = (
    re.compile(r"sqs\.(?P<region>[a-z0-9-]+)\.", re.ASCII),
    re.compile(r"(?P<region>[a-z0-9-]+)\.queue\.", re.ASCII),
)
_LONGEST_NAME = 80
_LONGEST_KNOWN = 512
# No queue can have this name.
_NOWHERE = "/."
_ARN = re.compile(r"arn:aws[a-z-]*:sqs:([a-z0-9-]+):(\d{12}):([^:/]+)", re.ASCII)


class UrlStyle(StrEnum):
    """The form of the queue URLs that are given out."""

    PATH = "path"
    """http://host:9324/000000000000/name"""
    REGION_PATH = "region-path"
    """http://host:9324/queue/us-east-1/000000000000/name"""
    REGION_HOST = "region-host"
    """http://sqs.us-east-1.host:9324/000000000000/name"""

    def pattern(self, base_url: str) -> str:
        """The URL with {account}, {region} and {name} where they belong."""
        base = base_url.rstrip("/")
        match self:
            case UrlStyle.PATH:
                return f"{base}/{{account}}/{{name}}"
            case UrlStyle.REGION_PATH:
                return f"{base}/queue/{{region}}/{{account}}/{{name}}"
            case UrlStyle.REGION_HOST:
                scheme, _, host = base.partition("://")
                return f"{scheme}://sqs.{{region}}.{host}/{{account}}/{{name}}"


@dataclass(frozen=True, slots=True)
class Address:
    """Which queue is meant.  What a URL does not say is None."""

    name: str
    account: str | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True)
class QueueId:
    """One queue of all accounts and regions."""

    account: str
    region: str
    name: str

    @property
    def arn(self) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{self.name}"

    @property
    def is_valid(self) -> bool:
        """Whether a queue can have this name: only then `engine_name` is that of no other queue."""
        return len(self.name) <= _LONGEST_NAME and _is_valid(self.region, self.name)

    @property
    def path(self) -> str:
        """The queue's address, in a form that can't be read as another queue's."""
        if len(self.name) > _LONGEST_NAME or _NAME.fullmatch(self.name) is None:
            return _NOWHERE
        # A region that is none of Amazon's is the signature's, and the database is told of it.
        region = f"/{self.region}" if _REGION.fullmatch(self.region) else ""
        return f"{region}/{self.account}/{self.name}"

    @property
    def engine_name(self) -> str:
        """The engine's queue behind it: the same name in the default account and region."""
        if (self.account, self.region) == (DEFAULT_ACCOUNT, DEFAULT_REGION):
            return self.name
        return f"{self.account}/{self.region}/{self.name}"


@lru_cache(maxsize=4096)
def _is_valid(region: str, name: str) -> bool:
    return _REGION.fullmatch(region) is not None and _NAME.fullmatch(name) is not None


def is_account(text: str) -> bool:
    return _ACCOUNT.fullmatch(text) is not None


def locate(url: str) -> Address:
    """What a QueueUrl names: a URL of any form, a path, or a bare name."""
    # What is remembered is short: a request may hold a URL of megabytes.
    return _known(url) if len(url) <= _LONGEST_KNOWN else _located(url)


@lru_cache(maxsize=4096)
def _known(url: str) -> Address:
    return _located(url)


def _located(url: str) -> Address:
    found = _ADDRESS.match(url)
    host, path = (found[1], found[2] or "") if found else ("", url.partition("?")[0])
    parts = [unquote(part) for part in path.split("/") if part]
    name = parts[-1] if parts else ""
    account = parts[-2] if len(parts) > 1 and is_account(parts[-2]) else None
    region = None
    if account is not None and len(parts) > 2 and _REGION.fullmatch(parts[-3]):  # noqa: PLR2004
        region = parts[-3]
    return Address(name, account, region or _region_of_host(host))


def locate_arn(arn: str) -> QueueId | None:
    """The queue of an ARN."""
    found = _ARN.fullmatch(arn)
    return None if found is None else QueueId(found[2], found[1], found[3])


def _region_of_host(host: str) -> str | None:
    for form in _HOSTS:
        if (found := form.match(host)) and _REGION.fullmatch(found["region"]):
            return found["region"]
    return None
