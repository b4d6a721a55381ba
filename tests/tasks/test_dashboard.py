"""The dashboard's page of tasks, on each kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.tasks import NewTask
from tests.dashboard.visitor import Page, Visitor

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place


@pytest.mark.backends("mariadb", "pg18")
async def test_tasks_and_dead_tasks_are_shown(place: Place, store: TaskStore) -> None:
    await store.insert(NewTask("mail", b"{}", tenant_id="<b>acme"))
    await store.insert(NewTask("invoice", b"{}"))
    (task,) = await store.reserve("worker-7", topics=["invoice"])
    await store.move_to_dlq(task.lease, "<script>no</script>")
    visitor = Visitor.of("host=127.0.0.1 port=1", task_dsns=(place.dsn,))
    await visitor.log_in()
    text = " ".join(Page(await visitor.shown("/tasks")).text.split())
    assert "<b>acme" in text
    assert "Dead letters" in text
    assert "<script>no</script>" in text
    assert "invoice" in Page(await visitor.shown("/tasks", status="dead")).text
    await visitor.close()
