"""Who sent a request: the signature checked, or, where checking is off, what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.sqs import errors, signature_claim
from penstock.sqs.keys import AccessKey
from penstock.sqs.names import is_account
from penstock.sqs.signature import Verifier

if TYPE_CHECKING:
    from penstock.sqs.keys import Keyring
    from penstock.sqs.options import Options
    from penstock.sqs.request import Request


class Identity(NamedTuple):
    """A key, and the region that the request was made for."""

    key: AccessKey
    region: str


class Gatekeeper:
    """The one place that tells callers apart, for both protocols."""

    def __init__(self, keyring: Keyring, options: Options) -> None:
        self._keyring = keyring
        self._options = options
        self._verifier = Verifier(keyring.secret_of)

    def identify(self, request: Request, service: str) -> Identity:
        """Raises the fault that a client should see when the signature is missing or wrong."""
        if not self._options.auth:
            return self._believed(request)
        claim = signature_claim.read(request)
        if claim is None:
            raise errors.missing_token()
        self._verifier.check(request, claim, service)
        key = self._keyring.get(claim.scope.access_key)
        assert key is not None
        return Identity(key, claim.scope.region)

    def _believed(self, request: Request) -> Identity:
        """Account and region as the request says, checked by nobody."""
        try:
            claim = signature_claim.read(request)
        except errors.Fault:
            claim = None
        if claim is None:
            key = AccessKey("ANONYMOUS", "unsigned", self._options.account)
            return Identity(key, self._options.region)
        # As other local servers have it, an access key of twelve digits is an account.
        name = claim.scope.access_key
        account = name if is_account(name) else self._options.account
        return Identity(AccessKey(name, "unsigned", account), claim.scope.region)
