"""No function of the SQL interface goes without a test that calls it by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sql.caller import Caller


def test_every_public_function_is_called_by_a_test_of_this_folder(mq: Caller) -> None:
    text = "\n".join(
        file.read_text(encoding="utf-8")
        for file in Path(__file__).parent.glob("*.py")
        if file.name not in ("test_every_function.py", "test_roles_and_grants.py")
    )
    names = mq.query("select proname from pg_proc where pronamespace = 'penstock'::regnamespace")
    called = ('("{}"', '"{}":', "penstock.{}(", ' "{}",')
    untested = {
        row.proname
        for row in names
        if row.proname != "advance_clock"  # what tests move time with
        and not any(form.format(row.proname) in text for form in called)
    }
    assert untested == set()
