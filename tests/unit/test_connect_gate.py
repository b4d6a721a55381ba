"""How often a client tries a server that takes no more connections."""

from __future__ import annotations

from penstock.postgres.session import ConnectGate


def test_attempts_come_less_and_less_often_while_they_fail() -> None:
    gate, now, pauses = ConnectGate(), 100.0, list[float]()
    for _ in range(12):
        assert gate.is_open(now)
        gate.failed(now)
        assert not gate.is_open(now)
        start = now
        while not gate.is_open(now):
            now += 0.01
        pauses.append(now - start)
    assert 0.1 < pauses[0] < 0.3
    assert all(2.4 < pause < 5.1 for pause in pauses[6:])


def test_clients_do_not_try_in_step() -> None:
    gates = [ConnectGate() for _ in range(50)]
    for gate in gates:
        gate.failed(0.0)
    open_after = {gate.is_open(0.18) for gate in gates}
    assert open_after == {True, False}


def test_attempts_that_fail_at_the_same_time_count_as_one() -> None:
    gate = ConnectGate()
    for _ in range(20):
        gate.failed(100.0)
    assert gate.is_open(100.26)


def test_a_success_opens_the_gate() -> None:
    gate = ConnectGate()
    gate.failed(100.0)
    assert gate.failures
    gate.succeeded()
    assert gate.is_open(100.0)
    assert not gate.failures
