"""SQLAlchemy, and Alembic's migrations."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
import alembic.command
import alembic.config
import alembic.script
import sqlalchemy
from sqlalchemy import create_engine, func, inspect, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload, selectinload

import steps
from models import Author, Book, Counter, Entry, Item

url = steps.url.replace("postgresql://", "postgresql+psycopg2://")
engine = create_engine(url, pool_size=steps.writers)


def migrations():
    config = alembic.config.Config()
    config.set_main_option("script_location", os.path.join(here, "migrations"))
    config.set_main_option("sqlalchemy.url", url)
    return config


def upgrade(revision):
    def do():
        alembic.command.upgrade(migrations(), revision)
        with engine.connect() as c:
            return len(inspect(c).get_table_names())
    return do


def revisions():
    scripts = alembic.script.ScriptDirectory.from_config(migrations())
    return [r.revision for r in scripts.walk_revisions()][::-1]


def again():
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from models import Base

    alembic.command.upgrade(migrations(), "head")
    with engine.connect() as c:
        return compare_metadata(MigrationContext.configure(c, opts={"compare_type": True}), Base.metadata)


def down():
    alembic.command.downgrade(migrations(), "base")
    return inspect(engine).get_table_names()


def crud():
    with Session(engine) as s:
        frank = Author(name="Frank", email="frank@example.com")
        frank.books.append(Book(title="Dune", pages=412, details={"tags": ["sand"], "year": 1965}))
        s.add(frank)
        s.commit()
        book = s.scalars(select(Book).where(Book.details["year"].as_integer() == 1965)).one()
        said = [book.title, book.pages, book.details]
        book.pages += 88
        s.commit()
        said.append(s.execute(update(Book).where(Book.pages >= 500).values(pages=Book.pages + 1)).rowcount)
        s.commit()
        s.refresh(book)
        said.append(book.pages)
        s.delete(frank)
        s.commit()
        return said + [s.scalar(select(func.count(Book.id))), s.scalar(select(func.count(Author.id)))]


def relations():
    with Session(engine) as s:
        authors = [Author(name=n, email=f"{n}@example.com") for n in ("ann", "bob")]
        s.add_all(authors)
        for i in range(4):
            authors[i % 2].books.append(Book(title=f"book {i}", pages=100 + i))
        s.commit()
        said = [(b.title, b.author.name) for b in s.scalars(select(Book).options(joinedload(Book.author)).order_by(Book.title))]
        said += [(a.name, sorted(b.title for b in a.books)) for a in s.scalars(select(Author).options(selectinload(Author.books)).order_by(Author.name))]
        said += [tuple(r) for r in s.execute(select(Author.name, func.count(Book.id), func.sum(Book.pages)).join(Book).group_by(Author.name).order_by(Author.name))]
        for broken in (Author(name="again", email="ann@example.com"), Book(author_id=authors[0].id, title="book 0"),
                       Book(author_id=987654, title="of nobody")):
            s.add(broken)
            try:
                s.commit()
            except IntegrityError as e:
                said.append(steps.code(e))
                s.rollback()
        s.delete(authors[0])
        s.commit()
        return said + [s.scalar(select(func.count(Book.id)))]


def nested():
    with Session(engine) as s, s.begin():
        s.add(Item(name="outer", value=1))
        try:
            with s.begin_nested():
                s.add(Item(name="lost", value=2))
                s.flush()
                raise KeyError
        except KeyError:
            pass
        try:
            with s.begin_nested():
                s.add_all([Counter(name="twice"), Counter(name="twice")])
        except IntegrityError:
            pass
        with s.begin_nested():
            s.add(Item(name="inner", value=3))
    with Session(engine) as s:
        said = list(s.scalars(select(Item.name).order_by(Item.value))) + [s.scalar(select(func.count(Counter.id)))]
        s.query(Item).delete()
        s.commit()
        return said


def bulk():
    with Session(engine) as s:
        s.add_all(Item(name=f"bulk {i}", value=i) for i in range(steps.bulk))
        s.commit()
        return list(s.execute(select(func.count(Item.id), func.sum(Item.value)).where(Item.name.like("bulk%"))).one())


def batches():
    for start in range(0, steps.rows, 1000):
        with Session(engine) as s, s.begin():
            s.bulk_insert_mappings(Item, [dict(name=f"row {i}", value=i) for i in range(start, start + 1000)])
    with Session(engine) as s:
        return s.scalar(select(func.count(Item.id)).where(Item.name.like("row%")))


def stream():
    count = total = 0
    with Session(engine) as s:
        for item in s.scalars(select(Item).where(Item.name.like("row%")).order_by(Item.value).execution_options(yield_per=1000)):
            count, total = count + 1, total + item.value
    return [count, total]


def enum():
    metadata = sqlalchemy.MetaData()
    person = sqlalchemy.Table("person", metadata, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
                              sqlalchemy.Column("now", sqlalchemy.Enum("sad", "ok", "happy", name="mood"), nullable=False))
    metadata.create_all(engine)
    with engine.begin() as c:
        c.execute(person.insert(), [{"id": 1, "now": "happy"}, {"id": 2, "now": "sad"}])
        said = [tuple(row) for row in c.execute(select(person).order_by(person.c.now))]
    metadata.drop_all(engine)
    return said


def writers():
    with Session(engine) as s:
        counters = [Counter(name=f"shared {i}") for i in range(4)]
        s.add_all(counters)
        s.commit()
        keys = [c.id for c in counters]

    def write(number, i):
        key = keys[(number + i) % 4]
        with Session(engine) as s, s.begin():
            s.add(Entry(counter_id=key, label=f"{number}/{i}"))
            s.execute(update(Counter).where(Counter.id == key).values(n=Counter.n + 1))

    steps.crowd(write)
    with Session(engine) as s:
        return [s.scalar(select(func.sum(Counter.n)).where(Counter.name.like("shared%"))), s.scalar(select(func.count(Entry.id)))]


print(f"tool {'.'.join(sqlalchemy.__version__.split('.')[:2])}, {'.'.join(alembic.__version__.split('.')[:2])}", flush=True)
if steps.phase == "up":
    tables, alter, default, widen = revisions()
    steps.chain(("tables", upgrade(tables)), ("alter", upgrade(alter)), ("default", upgrade(default)),
                ("widen", upgrade(widen)), ("again", again))
elif steps.phase == "use":
    steps.each(("crud", crud), ("relations", relations), ("nested", nested), ("bulk", bulk), ("batches", batches),
               ("stream", stream), ("writers", writers), ("enum", enum))
else:
    steps.step("down", down)
