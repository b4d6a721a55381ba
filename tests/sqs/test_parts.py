"""The parts that need neither a server nor a database."""

from __future__ import annotations

import asyncio
import base64
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting
from penstock.sqs import key_file, limits
from penstock.sqs.errors import Fault
from penstock.sqs.gather import MOST_BYTES, Ask, Gatherer, Job, fitting
from penstock.sqs.keys import AccessKey, Role
from penstock.sqs.names import Address, QueueId, UrlStyle, locate, locate_arn
from penstock.sqs.options import Options
from penstock.sqs.sealing import Seal
from penstock.sqs.watching import Watching
from penstock.sqs.wire import json, query_form, query_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SEAL = Seal(bytes(32))


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("orders", Address("orders")),
        ("/000000000000/orders", Address("orders", "000000000000")),
        ("http://h:9324/000000000000/orders", Address("orders", "000000000000")),
        ("http://h:9324/orders", Address("orders")),
        (
            "https://sqs.eu-west-1.amazonaws.com/123456789012/a.fifo",
            Address("a.fifo", "123456789012", "eu-west-1"),
        ),
        (
            "https://eu-west-1.queue.amazonaws.com/123456789012/a",
            Address("a", "123456789012", "eu-west-1"),
        ),
        ("http://h/queue/ap-south-1/123456789012/a", Address("a", "123456789012", "ap-south-1")),
        ("pgqs://pgqs.system:9efcf974/orders", Address("orders")),
        ("http://h/000000000000/orders/?x=1", Address("orders", "000000000000")),
        ("", Address("")),
        ("///", Address("")),
    ],
)
def test_every_form_of_a_queue_url_is_understood(url: str, wanted: Address) -> None:
    assert locate(url) == wanted


@pytest.mark.parametrize("style", UrlStyle)
def test_the_urls_that_are_given_out_are_understood(style: UrlStyle) -> None:
    url = style.pattern("https://queues.example.com").format(
        account="123456789012", region="eu-west-1", name="q"
    )
    found = locate(url)
    assert (found.name, found.account) == ("q", "123456789012")
    assert found.region == (None if style is UrlStyle.PATH else "eu-west-1")


def test_arns() -> None:
    assert locate_arn("arn:aws:sqs:eu-west-1:123456789012:q") == QueueId(
        "123456789012", "eu-west-1", "q"
    )
    assert locate_arn("arn:aws:sns:eu-west-1:123456789012:q") is None
    assert QueueId("000000000000", "us-east-1", "q").engine_name == "q"
    assert QueueId("000000000000", "eu-west-1", "q").engine_name == "000000000000/eu-west-1/q"


@pytest.mark.parametrize(
    ("queue", "path"),
    [
        (QueueId("111111111111", "eu-west-1", "a.fifo"), "/eu-west-1/111111111111/a.fifo"),
        # Such a region is the signature's, and the database hears of it in the context.
        (QueueId("111111111111", "local", "a"), "/111111111111/a"),
        (QueueId("111111111111", "eu-west-1", "000000000000/us-east-1/a"), "/."),
        (QueueId("111111111111", "eu-west-1", "a#"), "/."),
        (QueueId("111111111111", "eu-west-1", ""), "/."),
        (QueueId("111111111111", "eu-west-1", "a" * 81), "/."),
    ],
)
def test_a_queues_path_can_be_read_in_one_way_only(queue: QueueId, path: str) -> None:
    assert queue.path == path
    found = locate(path)
    if path != "/.":
        assert (found.account, found.name) == (queue.account, queue.name)


def test_a_long_address_is_not_remembered() -> None:
    from penstock.sqs import names

    before = names._known.cache_info().currsize
    assert locate("q" * 600).name == "q" * 600
    assert names._known.cache_info().currsize == before
    assert not QueueId("111111111111", "eu-west-1", "q" * 600).is_valid


def test_brackets_inside_texts_are_not_depth() -> None:
    limits.check_depth(b'{"MessageBody": "' + b"[{" * 10_000 + b'\\"[[["}')
    with pytest.raises(Fault):
        limits.check_depth(b"[" * 33)


def test_a_text_without_an_end_is_looked_at_once() -> None:
    # With a search that begins anew from each quote the test would not end.
    limits.check_depth(b"[]" * 40 + b'"' + b'\\"' * 1_000_000)
    limits.check_depth(b"[]" * 40 + b'"' + b'\\"' * 1_000_000 + b"\\")
    with pytest.raises(Fault, match="too deep"):
        limits.check_depth(b'["]", ' * 40)


def test_xml_keeps_what_a_parser_would_change() -> None:
    body = "a\r\nb\rc\t<&>\"' ü😀 ]]>"
    answer = {"Messages": [{"Body": body, "Attributes": {"SenderId": "x&y"}}]}
    root = ET.fromstring(query_xml.write("ReceiveMessage", answer, "id"))
    space = {"q": query_xml.NAMESPACE}
    assert root.findtext(".//q:Body", namespaces=space) == body
    assert root.findtext(".//q:Attribute/q:Value", namespaces=space) == "x&y"


@pytest.mark.parametrize(
    ("action", "form", "wanted"),
    [
        ("TagQueue", "Tags.1.Key=a&Tags.1.Value=b", {"Tags": {"a": "b"}}),
        (
            "TagQueue",
            "Tag.2.Key=c&Tag.2.Value=d&Tag.1.Key=a&Tag.1.Value=",
            {"Tags": {"a": "", "c": "d"}},
        ),
        ("UntagQueue", "TagKey.10=j&TagKey.2=b", {"TagKeys": ["b", "j"]}),
        ("GetQueueAttributes", "AttributeName=All", {"AttributeNames": ["All"]}),
        ("GetQueueAttributes", "AttributeName.member.1=All", {"AttributeNames": ["All"]}),
        (
            "CreateQueue",
            "QueueName=q&Attribute.1.Name=a&Attribute.1.Value=1",
            {"QueueName": "q", "Attributes": {"a": "1"}},
        ),
        ("ReceiveMessage", "MaxNumberOfMessages=3", {"MaxNumberOfMessages": 3}),
        ("ListQueues", "", {}),
    ],
)
def test_forms_become_the_requests_of_json(action: str, form: str, wanted: Any) -> None:
    import msgspec

    struct = query_form.read(action, query_form.parameters(form))
    assert msgspec.json.decode(json.text_of(struct)) == wanted


class Recorder:
    """Answers batches when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.go = asyncio.Event()

    def begin(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        self.batches.append([job.ask.request for job in jobs])
        self._task = asyncio.ensure_future(self._finish(jobs, done))

    async def _finish(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        await self.go.wait()
        for job in jobs:
            job.answer.set_result(job.action.encode() + b":" + job.ask.request)
        done()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _gatherer(recorder: Recorder, **given: Any) -> Gatherer:
    return Gatherer(recorder.begin, **({"most": 64, "width": 3, "mixed": True} | given))


async def test_requests_that_arrive_meanwhile_travel_together() -> None:
    recorder = Recorder()
    gatherer = _gatherer(recorder)
    first = gatherer.ask("a", "q", Ask(b"1", b""))
    await _turns(2)
    rest = [gatherer.ask("ab"[n % 2], "q", Ask(b"%d" % n, b"")) for n in range(2, 6)]
    other = gatherer.ask("a", "r", Ask(b"9", b""))
    await _turns(2)
    # The one for an idle lane does not wait for the others.
    assert recorder.batches == [[b"1"], [b"9"]]
    recorder.go.set()
    assert await asyncio.gather(first, *rest, other) == [
        b"a:1",
        b"a:2",
        b"b:3",
        b"a:4",
        b"b:5",
        b"a:9",
    ]
    assert recorder.batches == [[b"1"], [b"9"], [b"2", b"3", b"4", b"5"]]
    await gatherer.settle()


@pytest.mark.parametrize(
    ("mixed", "batches"), [(True, [[b"1", b"3", b"2"]]), (False, [[b"1", b"3"], [b"2"]])]
)
async def test_what_arrives_in_one_turn_of_the_loop_travels_together(
    mixed: bool, batches: list[list[bytes]]
) -> None:
    recorder = Recorder()
    recorder.go.set()
    gatherer = _gatherer(recorder, mixed=mixed)
    asks = [gatherer.ask("a", lane, Ask(b"%d" % n, b"")) for n, lane in enumerate("qrq", 1)]
    await asyncio.gather(*asks)
    assert recorder.batches == batches


async def test_only_so_many_batches_run_at_once() -> None:
    recorder = Recorder()
    gatherer = _gatherer(recorder, width=2, mixed=False)
    asks = [gatherer.ask("a", lane, Ask(lane.encode(), b"")) for lane in "qrst"]
    await _turns(3)
    assert recorder.batches == [[b"q"], [b"r"]]
    recorder.go.set()
    await asyncio.gather(*asks)
    assert recorder.batches == [[b"q"], [b"r"], [b"s"], [b"t"]]


async def test_what_does_not_fit_into_a_batch_takes_the_next() -> None:
    recorder = Recorder()
    recorder.go.set()
    gatherer = _gatherer(recorder, most=2)
    asks = [gatherer.ask("a", lane, Ask(b"%d" % n, b"")) for n, lane in enumerate("qqqrr")]
    await asyncio.gather(*asks)
    assert sorted(recorder.batches) == [[b"0", b"1"], [b"2"], [b"3", b"4"]] or (
        sorted(recorder.batches) == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
    )


async def test_a_batch_has_a_limit_in_number_and_in_bytes() -> None:
    def jobs(size: int, count: int) -> list[Job]:
        loop = asyncio.get_running_loop()
        return [Job("a", "q", Ask(b"x" * size, b""), loop.create_future())] * count

    assert fitting(jobs(1, 100), 64) == (64, 64)
    assert fitting(jobs(1, 5), 64) == (5, 5)
    assert fitting(jobs(MOST_BYTES, 3), 64) == (1, MOST_BYTES)
    assert fitting(jobs(MOST_BYTES, 3), 64, 1) == (0, 1)


def test_a_sealed_secret_opens_only_for_its_own_key() -> None:
    sealed = SEAL.seal("AKIAONE", "s3cret")
    assert "s3cret" not in sealed
    assert SEAL.open("AKIAONE", sealed) == "s3cret"
    for seal, name in ((SEAL, "AKIATWO"), (Seal(b"1" * 32), "AKIAONE")):
        with pytest.raises(InvalidSetting):
            seal.open(name, sealed)
    with pytest.raises(InvalidSetting):
        SEAL.open("AKIAONE", sealed[:-4] + "AAA=")


def test_the_master_key_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    text = base64.b64encode(bytes(32)).decode()
    (tmp_path / "key").write_text(text + "\n", encoding="utf-8")
    sealed = SEAL.seal("A", "s")
    for environ in (
        {"PENSTOCK_SQS_MASTER_KEY": text},
        {"PENSTOCK_SQS_MASTER_KEY_FILE": str(tmp_path / "key")},
    ):
        found = Seal.load(environ)
        assert found is not None
        assert found.open("A", sealed) == "s"
    assert Seal.load({}) is None
    for wrong in ("x", "c2hvcnQ="):
        with pytest.raises(InvalidSetting):
            Seal.load({"PENSTOCK_SQS_MASTER_KEY": wrong})


@pytest.mark.parametrize("seal", [None, SEAL])
def test_a_key_survives_its_file(tmp_path: Path, seal: Seal | None) -> None:
    key = AccessKey("AKIA1", 's"e\\c', "123456789012", Role.CONSUMER, ("a-*", "b"), "bob")
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(key_file.entry(key, seal), encoding="utf-8")
    assert key_file.load(path, seal) == [key]
    assert key.secret not in repr(key)


def test_a_file_of_secrets_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(key_file.entry(AccessKey("AKIA1", "s"), None), encoding="utf-8")
    path.chmod(0o644)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        key_file.load(path, None)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '[[key]]\naccess_key = "A"\nsecret = "s"\nrole = "king"',
        '[[key]]\naccess_key = "A"\nsecret = "s"\naccount = "1"',
        '[[key]]\naccess_key = "A"\nsecret = "s"\ncolour = "red"',
        '[[key]]\naccess_key = "A"',
        '[[key]]\naccess_key = "A"\nsealed = "v1.x"',
        '[key]\naccess_key = "A"\nsecret = "s"',
        "key = 7",
        "key = " + "7" * 5000,
        "key = " + "[" * 5000,
        "key = [7]",
        '[[key]]\naccess_key = "A"\nsecret = 7',
        '[[key]]\naccess_key = "A"\nsecret = "s"\nqueues = 7',
        '[[key]]\naccess_key = "A"\nsecret = "s"\nqueues = [7]',
        # Not the list of its characters, the star among them.
        '[[key]]\naccess_key = "A"\nsecret = "s"\nqueues = "orders-*"',
    ],
)
def test_a_key_file_with_a_fault_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSetting):
        key_file.load(path, None)


@pytest.mark.parametrize(
    "given",
    [
        {"host": "0.0.0.0", "auth": False},
        {"host": "example.com", "auth": False},
        {"processes": 0},
        {"account": "1"},
        {"public_url": "queues"},
    ],
)
def test_options_that_can_not_be_meant_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Options(**given)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_without_signatures_loopback_is_fine(host: str) -> None:
    assert not Options(host=host, auth=False).auth


def test_counters_of_several_processes_are_added(tmp_path: Path) -> None:
    one, two = (Watching(access_log=False, folder=tmp_path) for _ in range(2))
    one.note("SendMessage", 200, 0.002, None)
    one.share(3)
    (tmp_path / "other.json").write_bytes(next(tmp_path.glob("[0-9]*.json")).read_bytes())
    two.note("SendMessage", 200, 0.2, None)
    text = two.text(1)
    assert 'penstock_sqs_requests_total{action="SendMessage",status="200"} 2' in text
    assert 'penstock_sqs_request_seconds_bucket{action="SendMessage",le="0.0025"} 1' in text
    assert 'penstock_sqs_request_seconds_count{action="SendMessage"} 2' in text
    assert "penstock_sqs_open_polls 4" in text
