"""boto3 made to speak the query protocol, which its own model of SQS has given up.

Botocore still has that protocol's serializer and parser for other services.  Here its SQS model is
turned back into what it was: `query`, with the names that the protocol has.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from botocore.loaders import Loader

from penstock.sqs.protocol.query_protocol import NAMESPACE
from penstock.sqs.protocol.sqs_model import SHAPES
from penstock.sqs.protocol.wire_shapes import ListOf, MapOf, Structure


class _QueryLoader(Loader):
    def load_service_model(self, service_name: str, type_name: str, api_version: Any = None) -> Any:
        model = super().load_service_model(service_name, type_name, api_version)
        return _turned_back() if (service_name, type_name) == ("sqs", "service-2") else model


def use(session: Any) -> None:
    """Let the clients of this session speak it."""
    session._session.register_component("data_loader", _QueryLoader())


@cache
def _turned_back() -> Any:
    model = copy.deepcopy(Loader().load_service_model("sqs", "service-2"))
    metadata = model["metadata"]
    metadata |= {"protocol": "query", "protocols": ["query"], "xmlNamespace": NAMESPACE}
    for name in ("awsQueryCompatible", "jsonVersion", "targetPrefix"):
        metadata.pop(name, None)
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    for name, shape in SHAPES.items():
        _name(model["shapes"][name], shape)
    return model


def _name(found: dict[str, Any], shape: Any) -> None:
    match shape:
        case ListOf(_, name):
            found["member"]["locationName"] = name
            found["flattened"] = True
        case MapOf(_, _, key_name, value_name):
            found["key"]["locationName"] = key_name
            found["value"]["locationName"] = value_name
            found["flattened"] = True
        case Structure(members):
            for name, member in members.items():
                if isinstance(SHAPES[member.shape], MapOf):
                    found["members"][name]["locationName"] = member.query_name
