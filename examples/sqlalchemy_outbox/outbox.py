"""The outbox without an outbox: the row and its message are one transaction of the session."""

import os

import psycopg
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import penstock.sync
from penstock.integrations.sqlalchemy import announce, publish


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    article: Mapped[str]


# Every order that is written is announced by the flush that writes it.
announce(Order, "orders", lambda order: {"placed": order.article}, key=lambda order: str(order.id))


def main() -> None:
    dsn = os.environ["PENSTOCK_DSN"]
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    Base.metadata.create_all(engine)
    with penstock.sync.connect() as mq:
        mq.create_queue("orders")
        with Session(engine) as session:
            session.add(Order(id=7, article="kettle"))
            publish(session, "orders", {"note": "a customer of twenty years"}, priority=5)
            session.commit()
            session.add(Order(id=8, article="cup"))
            session.flush()
            session.rollback()
        for message in mq.claim("orders", count=10):
            print(message.payload)
            message.ack()
    engine.dispose()


if __name__ == "__main__":
    main()
