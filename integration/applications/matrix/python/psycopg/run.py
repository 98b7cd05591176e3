"""psycopg, whose connections open a transaction by themselves; migrations are scripts, as its users write them."""
import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

import steps


def connect():
    return psycopg.connect(steps.url)


def script(*statements):
    def do():
        with connect() as conn:
            for s in statements:
                conn.execute(s)
        with connect() as conn:
            return conn.execute("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public'").fetchone()
    return do


tables = script(
    "CREATE TABLE author (id serial PRIMARY KEY, name text NOT NULL, email varchar(254) UNIQUE)",
    """CREATE TABLE book (id serial PRIMARY KEY, author_id integer NOT NULL REFERENCES author ON DELETE CASCADE,
        title varchar(100) NOT NULL, pages integer, details jsonb, UNIQUE (author_id, title))""",
    "CREATE INDEX book_title ON book (title)",
    "CREATE TABLE item (id serial PRIMARY KEY, name varchar(50), value integer)",
    "CREATE TABLE counter (id serial PRIMARY KEY, name varchar(50) UNIQUE, n integer NOT NULL DEFAULT 0)",
    "CREATE TABLE entry (id serial PRIMARY KEY, counter_id integer REFERENCES counter, label varchar(50))",
)
alter = script("ALTER TABLE author ADD COLUMN born date", "CREATE INDEX author_born ON author (born)")
default = script("ALTER TABLE book ADD COLUMN stock integer NOT NULL DEFAULT 0")
widen = script("ALTER TABLE book ALTER COLUMN title TYPE varchar(200)")
down = script("DROP TABLE entry, counter, item, book, author")


def crud():
    with connect() as conn:
        author = conn.execute("INSERT INTO author (name, email) VALUES (%s, %s) RETURNING id", ("Frank", "frank@example.com")).fetchone()[0]
        conn.execute("INSERT INTO book (author_id, title, pages, details) VALUES (%s, %s, %s, %s)",
                     (author, "Dune", 412, Jsonb({"tags": ["sand"], "year": 1965})))
        said = list(conn.execute("SELECT title, pages, details FROM book WHERE details @> %s", (Jsonb({"year": 1965}),)).fetchone())
        said.append(conn.execute("UPDATE book SET pages = pages + 89 WHERE title = %s", ("Dune",)).rowcount)
        said += conn.execute("SELECT pages FROM book WHERE author_id = %s", (author,)).fetchone()
        said.append(conn.execute("INSERT INTO author (name, email) VALUES (%s, %s) ON CONFLICT (email) DO UPDATE SET name = EXCLUDED.name",
                                 ("Herbert", "frank@example.com")).rowcount)
        conn.commit()
        conn.execute("DELETE FROM author WHERE name = ANY(%s)", (["Herbert", "Other"],))
        return said + list(conn.execute("SELECT (SELECT count(*) FROM author), (SELECT count(*) FROM book)").fetchone())


def relations():
    with connect() as conn:
        with conn.cursor() as cur:
            cur.executemany("INSERT INTO author (name, email) VALUES (%s, %s)", [(n, f"{n}@example.com") for n in ("ann", "bob")])
            for i in range(4):
                cur.execute("INSERT INTO book (author_id, title, pages) SELECT id, %s, %s FROM author WHERE name = %s",
                            (f"book {i}", 100 + i, ("ann", "bob")[i % 2]))
        said = conn.execute("SELECT a.name, count(*), sum(b.pages) FROM author a JOIN book b ON b.author_id = a.id GROUP BY a.name ORDER BY 1").fetchall()
        for broken in ("INSERT INTO author (name, email) VALUES ('again', 'ann@example.com')",
                       "INSERT INTO book (author_id, title) SELECT id, 'book 0' FROM author WHERE name = 'ann'",
                       "INSERT INTO book (author_id, title) VALUES (987654, 'of nobody')"):
            try:
                with conn.transaction():
                    conn.execute(broken)
            except errors.IntegrityError as e:
                said.append(e.sqlstate)
        conn.execute("DELETE FROM author WHERE name = 'ann'")
        return said + conn.execute("SELECT count(*) FROM book").fetchall()


def nested():
    with connect() as conn, conn.transaction():
        conn.execute("INSERT INTO item (name, value) VALUES ('outer', 1)")
        with conn.transaction() as inner:
            conn.execute("INSERT INTO item (name, value) VALUES ('lost', 2)")
            raise psycopg.Rollback(inner)
        try:
            with conn.transaction():
                conn.execute("INSERT INTO counter (name) VALUES ('twice')")
                conn.execute("INSERT INTO counter (name) VALUES ('twice')")
        except errors.UniqueViolation:
            pass
        with conn.transaction():
            conn.execute("INSERT INTO item (name, value) VALUES ('inner', 3)")
    with connect() as conn:
        said = conn.execute("SELECT name FROM item ORDER BY value").fetchall() + conn.execute("SELECT count(*) FROM counter").fetchall()
        conn.execute("DELETE FROM item")
        return said


def bulk():
    with connect() as conn:
        with conn.cursor() as cur:
            cur.executemany("INSERT INTO item (name, value) VALUES (%s, %s)", [(f"bulk {i}", i) for i in range(steps.bulk)])
        conn.commit()
        return conn.execute("SELECT count(*), sum(value) FROM item WHERE name LIKE 'bulk%'").fetchone()


def batches():
    with connect() as conn:
        for start in range(0, steps.rows, 1000):
            with conn.cursor() as cur:
                cur.executemany("INSERT INTO item (name, value) VALUES (%s, %s)", [(f"row {i}", i) for i in range(start, start + 1000)])
            conn.commit()
        return conn.execute("SELECT count(*) FROM item WHERE name LIKE 'row%'").fetchone()


def stream():
    count = total = 0
    with connect() as conn, conn.cursor(name="rows") as cur:
        cur.itersize = 1000
        cur.execute("SELECT value FROM item WHERE name LIKE 'row%' ORDER BY value")
        for (value,) in cur:
            count, total = count + 1, total + value
    return [count, total]


def enum():
    with connect() as conn:
        conn.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        conn.execute("CREATE TABLE person (id int PRIMARY KEY, now mood NOT NULL)")
        conn.execute("INSERT INTO person VALUES (1, 'happy'), (2, 'sad')")
        said = conn.execute("SELECT id, now FROM person ORDER BY now").fetchall()
        try:
            with conn.transaction():
                conn.execute("INSERT INTO person VALUES (3, 'bored')")
        except psycopg.Error as e:
            said.append(e.sqlstate)
        conn.execute("DROP TABLE person")
        conn.execute("DROP TYPE mood")
        return said


def writers():
    with connect() as conn:
        keys = [conn.execute("INSERT INTO counter (name) VALUES (%s) RETURNING id", (f"shared {i}",)).fetchone()[0] for i in range(4)]
    open_ones = {}

    def write(number, i):
        conn = open_ones.get(number) or open_ones.setdefault(number, connect())
        key = keys[(number + i) % 4]
        with conn.transaction():
            conn.execute("INSERT INTO entry (counter_id, label) VALUES (%s, %s)", (key, f"{number}/{i}"))
            conn.execute("UPDATE counter SET n = n + 1 WHERE id = %s", (key,))

    try:
        steps.crowd(write)
    finally:
        for conn in open_ones.values():
            conn.close()
    with connect() as conn:
        return conn.execute("SELECT sum(n), (SELECT count(*) FROM entry) FROM counter WHERE name LIKE 'shared%'").fetchone()


print(f"tool {'.'.join(psycopg.__version__.split('.')[:2])}", flush=True)
if steps.phase == "up":
    steps.chain(("tables", tables), ("alter", alter), ("default", default), ("widen", widen))
elif steps.phase == "use":
    steps.each(("crud", crud), ("relations", relations), ("nested", nested), ("bulk", bulk), ("batches", batches),
               ("stream", stream), ("writers", writers), ("enum", enum))
else:
    steps.step("down", down)
