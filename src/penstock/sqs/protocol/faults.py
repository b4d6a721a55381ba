"""What a client is told when a request fails: shape, query code, HTTP status, and a sentence.

The JSON protocol shows the shape, the query protocol the code; SDKs that moved from query to JSON
read the code from the header `x-amzn-query-error`, so every fault has both.  The faults of
actions come from the database with both names; here are those that never get that far.
"""

from __future__ import annotations

from typing import Any


class Fault(Exception):
    """A refusal, ready for either protocol."""

    def __init__(self, shape: str, query_code: str, status: int, message: str) -> None:
        super().__init__(message)
        self.shape = shape
        self.query_code = query_code
        self.status = status
        self.message = message

    @property
    def is_senders(self) -> bool:
        """The client's fault, not the server's."""
        return self.status < 500  # noqa: PLR2004 - HTTP's own border


def from_database(error: dict[str, Any]) -> Fault:
    """The fault that `pgqs.invoke_many` answers in place of a result."""
    return Fault(error["shape"], error["query_code"], error["status"], error["message"])


def no_queue() -> Fault:
    return Fault(
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        400,
        "The specified queue does not exist.",
    )


def missing_token() -> Fault:
    return Fault(
        "MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
        403,
        "Request is missing Authentication Token",
    )


def incomplete_signature(reason: str) -> Fault:
    return Fault("IncompleteSignatureException", "IncompleteSignature", 400, reason)


def unknown_key() -> Fault:
    return Fault(
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        403,
        "The security token included in the request is invalid.",
    )


def wrong_signature(reason: str | None = None) -> Fault:
    return Fault(
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        403,
        reason
        or "The request signature we calculated does not match the signature you provided. Check "
        "your AWS Secret Access Key and signing method.",
    )


def access_denied(principal: str, action: str, resource: str, reason: str) -> Fault:
    return Fault(
        "AccessDeniedException",
        "AccessDenied",
        403,
        f"User: {principal} is not authorized to perform: sqs:{action.lower()} on resource: "
        f"{resource} because {reason}",
    )


def unknown_action(name: str) -> Fault:
    return Fault(
        "InvalidAction",
        "InvalidAction",
        400,
        f"The action {_short(name)} is not valid for this endpoint.",
    )


def unknown_operation() -> Fault:
    return Fault("UnknownOperationException", "UnknownOperationException", 404, "")


def malformed(reason: str) -> Fault:
    """A body that is not what its protocol says."""
    return Fault("SerializationException", "MalformedInput", 400, reason)


def too_large(limit: int) -> Fault:
    return Fault(
        "RequestEntityTooLargeException",
        "RequestEntityTooLarge",
        413,
        f"The request is longer than {limit} bytes.",
    )


def unsupported_encoding() -> Fault:
    return Fault(
        "UnsupportedMediaTypeException",
        "UnsupportedMediaType",
        415,
        "A request with a Content-Encoding can't be read: send it as it is.",
    )


def too_slow() -> Fault:
    return Fault(
        "RequestTimeoutException", "RequestTimeout", 408, "The request did not arrive in time."
    )


def long_head() -> Fault:
    return Fault(
        "RequestHeaderFieldsTooLargeException",
        "RequestHeaderFieldsTooLarge",
        431,
        "The head of the request is too long.",
    )


def broken_http() -> Fault:
    return Fault("BadRequestException", "BadRequest", 400, "This is not a request of HTTP/1.1.")


def wrong_method(method: str) -> Fault:
    return Fault(
        "MethodNotAllowedException",
        "MethodNotAllowed",
        405,
        f"{_short(method)} is not understood here: use POST, or GET with the query protocol.",
    )


def unavailable() -> Fault:
    return Fault(
        "ServiceUnavailable", "ServiceUnavailable", 503, "The database does not answer: try again."
    )


def internal() -> Fault:
    return Fault(
        "InternalFailure", "InternalFailure", 500, "The request failed; the server's log says why."
    )


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}…"  # noqa: PLR2004
