"""Access keys: who signs, for which account, with which role, on which queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from penstock.errors import InvalidSetting
from penstock.sqs.protocol.queue_names import is_account

if TYPE_CHECKING:
    from collections.abc import Iterable

_SENDS = frozenset({"SendMessage", "SendMessageBatch"})
_CONSUMES = frozenset(
    {
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
    }
)
_LOOKS = frozenset(
    {
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "ListMessageMoveTasks",
        "ListQueues",
        "ListQueueTags",
    }
)


class Role(StrEnum):
    """What a key may do; the words are those of the database's roles."""

    ADMIN = "admin"
    PUBLISHER = "publisher"
    CONSUMER = "consumer"
    MONITOR = "monitor"

    @classmethod
    def named(cls, word: str) -> Role:
        try:
            return cls(word)
        except ValueError:
            raise InvalidSetting(
                f"{word!r} is no role: choose {', '.join(each.value for each in cls)}"
            ) from None

    def permits(self, action: str) -> bool:
        """Whether this role covers an action; every role may look."""
        match self:
            case Role.ADMIN:
                return True
            case Role.PUBLISHER:
                return action in _SENDS or action in _LOOKS
            case Role.CONSUMER:
                return action in _CONSUMES or action in _LOOKS
            case Role.MONITOR:
                return action in _LOOKS


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One key.  Its secret is never shown: SigV4 needs it as it is, so it can't be hashed."""

    access_key: str
    secret: str = field(repr=False)
    account: str = "000000000000"
    role: Role = Role.ADMIN
    queues: tuple[str, ...] = ()
    """Patterns such as `orders-*`; none: every queue of the account."""
    name: str = ""

    def __post_init__(self) -> None:
        if not is_account(self.account):
            raise InvalidSetting(f"{self.account!r} is no account: twelve digits are needed")
        if not self.access_key or not self.secret:
            raise InvalidSetting("an access key needs an id and a secret")

    @property
    def arn(self) -> str:
        """How policies name the holder of this key."""
        return f"arn:aws:iam::{self.account}:user/{self.name or self.access_key}"

    @property
    def user_id(self) -> str:
        """The SenderId of this key's messages."""
        return f"AIDA{self.access_key.removeprefix('AKIA')}"

    def reaches(self, queue: str) -> bool:
        """Whether a queue of its own account is among those that this key is for."""
        return not self.queues or any(fnmatchcase(queue, each) for each in self.queues)


class Keyring:
    """The keys that are in force; replaced whole when their source changes."""

    def __init__(self, keys: Iterable[AccessKey] = ()) -> None:
        self._keys: dict[str, AccessKey] = {}
        self.replace(keys)

    def replace(self, keys: Iterable[AccessKey]) -> None:
        self._keys = {key.access_key: key for key in keys}

    def get(self, access_key: str) -> AccessKey | None:
        return self._keys.get(access_key)

    def secret_of(self, access_key: str) -> str | None:
        key = self._keys.get(access_key)
        return None if key is None else key.secret

    def __len__(self) -> int:
        return len(self._keys)
