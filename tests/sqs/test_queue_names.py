"""Queue URLs and ARNs in all their forms."""

from __future__ import annotations

import pytest

from penstock.sqs.protocol import queue_names
from penstock.sqs.protocol.queue_names import Address, QueueId, UrlStyle, locate, locate_arn


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
    before = queue_names._known.cache_info().currsize
    assert locate("q" * 600).name == "q" * 600
    assert queue_names._known.cache_info().currsize == before
    assert not QueueId("111111111111", "eu-west-1", "q" * 600).is_valid
