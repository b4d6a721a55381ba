"""What a pipeline raises.

::

    PenstockError
    └── PipelineFailed      the run ended early; what it had not committed is done again next time
"""

from __future__ import annotations

from penstock.errors import PenstockError


class PipelineFailed(PenstockError):
    """A run ended early.  Nothing is lost or doubled: start it again when the cause is mended."""
