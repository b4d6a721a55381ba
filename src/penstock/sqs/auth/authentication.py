"""Who sends a request: by its checked signature or, where checks are off, by what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.sqs.auth.access_keys import AccessKey
from penstock.sqs.auth.signature import Verifier, claim_of
from penstock.sqs.protocol import faults
from penstock.sqs.protocol.queue_names import is_account

if TYPE_CHECKING:
    from penstock.sqs.auth.access_keys import Keyring
    from penstock.sqs.protocol.sqs_request import Request
    from penstock.sqs.server_options import Options


class Identity(NamedTuple):
    """A key, and the region that the request was made for."""

    key: AccessKey
    region: str


class Authenticator:
    """Identifies the sender of a request, for both protocols."""

    def __init__(self, keyring: Keyring, options: Options) -> None:
        self._keyring = keyring
        self._options = options
        self._verifier = Verifier(keyring.secret_of)

    def identify(self, request: Request, service: str) -> Identity:
        """Raises the fault that a client should see when the signature is missing or wrong."""
        if not self._options.auth:
            return self._unchecked(request)
        claim = claim_of(request)
        if claim is None:
            raise faults.missing_token()
        self._verifier.check(request, claim, service)
        key = self._keyring.get(claim.scope.access_key)
        assert key is not None
        return Identity(key, claim.scope.region)

    def _unchecked(self, request: Request) -> Identity:
        """Account and region as the request says, without a check."""
        try:
            claim = claim_of(request)
        except faults.Fault:
            claim = None
        if claim is None:
            key = AccessKey("ANONYMOUS", "unsigned", self._options.account)
            return Identity(key, self._options.region)
        # As in other local servers, an access key of twelve digits is an account.
        name = claim.scope.access_key
        account = name if is_account(name) else self._options.account
        return Identity(AccessKey(name, "unsigned", account), claim.scope.region)
