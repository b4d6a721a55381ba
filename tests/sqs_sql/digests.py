"""MD5OfMessageAttributes, computed as SDKs do to check an answer; independent of the engine."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import Any


def attributes_md5(attributes: dict[str, dict[str, Any]]) -> str:
    """Of each attribute in the order of names: name, type, kind of value, value."""
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        value = attributes[name]
        binary = value["DataType"].startswith("Binary")
        for part in (name.encode(), value["DataType"].encode()):
            digest.update(struct.pack("!I", len(part)) + part)
        content = (
            base64.b64decode(value["BinaryValue"]) if binary else value["StringValue"].encode()
        )
        digest.update(b"\x02" if binary else b"\x01")
        digest.update(struct.pack("!I", len(content)) + content)
    return digest.hexdigest()


def body_md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def text(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


def binary(value: bytes, kind: str = "Binary") -> dict[str, str]:
    return {"DataType": kind, "BinaryValue": base64.b64encode(value).decode()}
