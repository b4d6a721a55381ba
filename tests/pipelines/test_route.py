"""route: filter, transform, enrich, split, merge; a message that fails is a dead letter, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import PipelineFailed, Rule, load_rules, route

if TYPE_CHECKING:
    from tests.pipelines.shop import Shop

AMOUNT = "variant_get(payload, '$.amount', 'string')"


def test_rules_split_transform_and_bury(shop: Shop):
    shop.publish(
        "a", [{"n": n, "amount": str(n * 10)} for n in range(6)], headers=[{"from": "a"}] * 6
    )
    shop.publish("b", [{"n": 6, "amount": "a lot"}, {"n": 7, "amount": "70"}])
    rules = [
        Rule("large", where=f"cast({AMOUNT} as int) >= 40", headers={"size": "'large'"}),
        Rule("all", payload="named_struct('n', variant_get(payload, '$.n', 'int'))", key="topic"),
    ]
    done = shop(route, ["a", "b"], rules)
    assert (done.rows, done.rejected, done.details["sent"]) == (8, 1, 10)
    assert shop.numbers("large") == [4, 5, 7]
    assert shop.numbers("all") == [0, 1, 2, 3, 4, 5, 7]
    assert shop.messages("large")[0]["headers"] == {"from": "a", "size": "large"}
    assert {each["key"] for each in shop.messages("all")} == {"a", "b"}
    [dead] = shop.messages("a.dead")
    assert dead["payload"] == {"n": 6, "amount": "a lot"}
    assert dead["headers"]["original_topic"] == "b"
    assert "CAST_INVALID_INPUT" in dead["headers"]["error"]

    shop.publish("a", [{"n": 8, "amount": "80"}])
    shop(route, ["a", "b"], rules)
    assert shop.numbers("large") == [4, 5, 7, 8]


def test_a_topic_that_is_added_to_a_state_is_sent_on_from_its_beginning(shop: Shop):
    shop.publish("a", [{"n": n} for n in range(3)])
    shop.publish("b", [{"n": n} for n in range(10, 13)])
    shop(route, "a", [Rule("all")], group="sorter")
    shop(route, ["a", "b"], [Rule("all")], group="sorter")
    shop(route, "b", [Rule("all")], group="sorter")
    assert shop.numbers("all") == [0, 1, 2, 10, 11, 12]


def by_region(message: dict[str, Any]) -> Any:
    amount = int(message["payload"]["amount"])
    if amount == 0:
        return None
    out = {
        "topic": f"region-{message['key']}",
        "payload": message["payload"] | {"cents": amount * 100},
    }
    return [out, out | {"topic": "audit", "headers": {"seen": True}}]


def test_a_function_makes_any_number_of_messages_of_one(shop: Shop):
    shop.publish(
        "in",
        [{"n": n, "amount": a} for n, a in enumerate(["1", "0", "x", "3"])],
        keys=["eu", "eu", "us", "us"],
    )
    done = shop(route, "in", by_region, dead_letters="broken")
    assert done.rejected == 1
    assert shop.numbers("region-eu") == [0]
    assert shop.numbers("region-us") == [3]
    assert [each["headers"] for each in shop.messages("audit")] == [{"seen": True}] * 2
    [dead] = shop.messages("broken")
    assert dead["headers"]["error"].startswith("ValueError: invalid literal")


def test_a_query_joins_a_static_table(shop: Shop):
    (shop.folder / "customers.csv").write_text("id,country\nada,GB\nbob,DE\n")
    shop.publish("in", [{"n": 1}, {"n": 2}, {"n": 3}], keys=["ada", "bob", "cy"])
    query = """select m.offset, 'out' as topic, m.key,
        to_json(struct(variant_get(payload, '$.n', 'int') as n, c.country as country)) as value
        from messages m join customers c on c.id = m.key"""
    shop(route, "in", query, tables={"customers": str(shop.folder / "customers.csv")})
    assert [each["payload"] for each in shop.messages("out")] == [
        {"n": 1, "country": "GB"},
        {"n": 2, "country": "DE"},
    ]


@pytest.mark.always
def test_the_first_rule_that_fits_and_a_topic_by_expression(shop: Shop):
    shop.publish("in", [{"n": n, "to": "x" if n % 2 else "y"} for n in range(5)])
    rules = [
        Rule("zero", where="data.n = 0"),
        Rule("", to_sql="concat('to-', data.to)"),
    ]
    shop(route, "in", rules, schema="n int, to string", first_match=True)
    assert (shop.numbers("zero"), shop.numbers("to-x"), shop.numbers("to-y")) == (
        [0],
        [1, 3],
        [2, 4],
    )


def test_rules_that_fail_too_often_stop_the_run_and_lose_nothing(shop: Shop):
    shop.publish("in", [{"n": n, "amount": "x"} for n in range(5)])
    wrong = [Rule("out", payload=f"named_struct('n', cast({AMOUNT} as int))")]
    with pytest.raises(PipelineFailed, match="more than 2 rows"):
        shop(route, "in", wrong, max_failures=2)
    assert shop.messages("in.dead") == []
    shop(route, "in", [Rule("out")])
    assert shop.numbers("out") == list(range(5))


def test_rules_of_a_file_are_checked(shop: Shop):
    path = shop.folder / "rules.toml"
    path.write_text('[[rule]]\nto = "x"\nwhere = "true"\n')
    assert load_rules(path) == [Rule("x", where="true")]
    path.write_text('[[rule]]\nto = "x"\nwhen = "true"\n')
    with pytest.raises(InvalidSetting, match="no field when"):
        load_rules(path)
    with pytest.raises(InvalidSetting, match="which is read here"):
        shop(route, "in", [Rule("in")])
