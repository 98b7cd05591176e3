"""SQLAlchemy: writers that insert with a generated key, and raise counters that they share."""
import random
import sys
import threading

from sqlalchemy import BigInteger, Column, DateTime, Identity, Integer, Text, create_engine, func, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, declarative_base

url, writers, transactions, counters = sys.argv[1], *map(int, sys.argv[2:5])
Base = declarative_base()


class Entry(Base):
    __tablename__ = "entry"
    id = Column(BigInteger, Identity(), primary_key=True)
    label = Column(Text)
    created_at = Column(DateTime(timezone=True), server_default=func.now())
    made_at = Column(DateTime, default=func.now())  # VALUES has now(), and it is returned
    __mapper_args__ = {"eager_defaults": True}  # as later versions do unasked: each INSERT returns the time


class Counter(Base):
    __tablename__ = "counter"
    id = Column(Integer, primary_key=True)
    n = Column(Integer)
    changed_at = Column(DateTime(timezone=True), onupdate=func.now())
    __mapper_args__ = {"eager_defaults": True}


class Tag(Base):
    __tablename__ = "tag"
    name = Column(Text, primary_key=True)


engine = create_engine(url.replace("postgresql://", "postgresql+psycopg2://"), pool_size=writers)
out = threading.Lock()


def transaction(label, kind, counter):
    before = "-"
    try:
        with Session(engine) as session, session.begin():
            entry = Entry(label=label)
            session.add(entry)
            session.flush()
            if kind == "nested":
                try:
                    with session.begin_nested():
                        session.add(Tag(name="taken"))
                        session.flush()
                except IntegrityError:
                    pass
            if kind == "load":
                row = session.get(Counter, counter)
                before = row.n
                row.n = before + 1
            else:
                session.execute(update(Counter).where(Counter.id == counter).values(n=Counter.n + 1))
            session.flush()
            key = entry.id
        line = f"committed {kind} {key} {counter} {before}"
    except DBAPIError as e:
        detail = (e.orig.diag.message_detail or "") if e.orig.pgcode else str(e.orig)
        line = f"refused {kind} {e.orig.pgcode} {counter} {before} {detail}"
    with out:
        print(line, flush=True)


def writer(number):
    r = random.Random(number)
    for i in range(number, transactions, writers):
        transaction(f"e{i}", r.choice(("add", "add", "add", "load", "nested")), r.randint(1, counters))


threads = [threading.Thread(target=writer, args=(n,)) for n in range(writers)]
for t in threads:
    t.start()
for t in threads:
    t.join()
