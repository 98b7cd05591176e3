"""Scenarios of psycopg's own."""

import logging
import threading

import psycopg

import steps

# It warns of a pipeline that an error left, sometimes.
logging.getLogger("psycopg").setLevel(logging.ERROR)

CROWD = 30  # many times the backends behind Sluice
ROUNDS = 8


def pipeline(s, table):
    """Many statements in flight, an error among them, Syncs between them."""
    s.step("", f"CREATE TABLE {table} (id int PRIMARY KEY)", None)
    insert = f"INSERT INTO {table} VALUES (%s)"

    def run(*groups):
        cursors = []
        try:
            with s.conn.pipeline() as p:
                for group in groups:
                    for i in group:
                        cursors.append(s.conn.execute(insert, [i], prepare=True))
                    cursors.append(s.conn.execute("SELECT %s::int * 2", [group[0]]))
                    p.sync()
            for cursor in cursors:
                print(*steps.results(cursor), sep="\n")
        except psycopg.Error as error:  # how much was sent by then depends on the time
            print(*steps.failure(error), sep="\n")
        s.step("", f"SELECT id FROM {table} ORDER BY id", None)

    run([1, 2, 3])
    run([4, 5], [6, 7])
    run([8, 1, 9])
    s.step("", "BEGIN", None)
    run([11, 12])
    s.step("", "ROLLBACK", None)
    try:
        with s.conn.pipeline():
            s.conn.cursor().executemany(insert, [(i,) for i in range(100, 600)])
    except psycopg.Error as error:
        print(*steps.failure(error), sep="\n")
    s.step("", f"SELECT count(*), max(id) FROM {table}", None)


def executemany(s, table):
    """executemany pipelines by itself; with returning it keeps every result."""
    s.step("", f"CREATE TABLE {table} (id int PRIMARY KEY, v text)", None)
    with s.conn.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s) RETURNING id", [(i, "v" * i) for i in range(50)], returning=True)
        print(*steps.results(cursor), sep="\n")
    s.step("", f"SELECT count(*), sum(length(v)) FROM {table}", None)


def prepared(s, table):
    """Statements are prepared at the third use, and dropped beyond a number."""
    s.conn.prepare_threshold, s.conn.prepared_max = 2, 3
    for i in range(8):
        for text in range(5):
            row = s.conn.execute(f"SELECT %s::int + {text} AS n", [i]).fetchone()
            if row != (i + text,):
                print("!", i, text, row)
    with s.conn.cursor(binary=True) as cursor:
        for i in range(5):
            cursor.execute("SELECT %b::int8, %t::text, %s::timestamptz", [i, f"t{i}", "2026-01-02 03:04:05+00"])
            print(*steps.results(cursor), sep="\n")


def transactions(s, table):
    """Blocks of the driver's own."""
    s.step("", f"CREATE TABLE {table} (id int PRIMARY KEY)", None)
    s.conn.autocommit = False
    for ids, fail in (([1, 2], False), ([3], True), ([4, 1], False), ([5], False)):
        try:
            with s.conn.transaction():
                for i in ids:
                    s.conn.execute(f"INSERT INTO {table} VALUES (%s)", [i])
                if fail:
                    raise psycopg.Rollback
        except psycopg.Error as error:
            print(*steps.failure(error), sep="\n")
    s.conn.execute(f"INSERT INTO {table} VALUES (6)")
    s.conn.rollback()
    s.conn.execute(f"INSERT INTO {table} VALUES (7)")
    s.conn.commit()
    s.conn.autocommit = True
    s.step("", f"SELECT id FROM {table} ORDER BY id", None)


def nested(s, table):
    """A block inside a block is a savepoint."""
    s.step("", f"CREATE TABLE {table} (id int PRIMARY KEY)", None)
    try:
        with s.conn.transaction():
            s.conn.execute(f"INSERT INTO {table} VALUES (1)")
            try:
                with s.conn.transaction():
                    s.conn.execute(f"INSERT INTO {table} VALUES (1)")
            except psycopg.Error as error:
                print(*steps.failure(error), sep="\n")
            s.conn.execute(f"INSERT INTO {table} VALUES (2)")
    except psycopg.Error as error:
        print(*steps.failure(error), sep="\n")
    s.step("", f"SELECT id FROM {table} ORDER BY id", None)


def server_cursor(s, table):
    """A named cursor reads a result in pieces."""
    try:
        with s.conn.transaction(), s.conn.cursor(name="pieces") as cursor:
            cursor.itersize = 10
            cursor.execute("SELECT generate_series(1, 35)")
            print(cursor.fetchmany(5), sum(row[0] for row in cursor))
        for binary in False, True:
            with s.conn.transaction(), s.conn.cursor(name="a \"b\"", binary=binary) as cursor:
                cursor.execute("SELECT n, %s::text, now() IS NULL FROM generate_series(1, %s) n", ["x", 9])
                print(*cursor.description, cursor.fetchone(), cursor.fetchmany(3), cursor.rownumber, cursor.statusmessage)
                cursor.scroll(2)
                print(cursor.fetchall(), cursor.fetchone(), cursor.rownumber)
        for binary in False, True:
            with s.conn.cursor(name="held", binary=binary, withhold=True) as cursor:
                with s.conn.transaction():
                    cursor.execute("SELECT n, %s::text, now() IS NULL FROM generate_series(1, %s) n", ["x", 9])
                    print(*cursor.description, cursor.fetchmany(3))
                print(cursor.fetchone(), cursor.fetchmany(2), cursor.rownumber)
            with s.conn.cursor(name="back", binary=binary, withhold=True, scrollable=True) as cursor:
                cursor.execute("SELECT n FROM generate_series(1, 9) n")
                print(cursor.fetchmany(5))
                cursor.scroll(-4)
                print(cursor.fetchmany(2))
                cursor.scroll(7, mode="absolute")
                print(cursor.fetchall())
        with s.conn.transaction(), s.conn.cursor(name="c1") as one, s.conn.cursor(name="c2") as other:
            one.execute("SELECT generate_series(1, 4)")
            other.execute("SELECT generate_series(11, 14)")
            print(list(zip(one, other)))
        with s.conn.transaction(), s.conn.cursor(name="c") as cursor:
            cursor.execute("SELECT 1 / (3 - n) FROM generate_series(1, 5) n")
            print(cursor.fetchmany(2))
            print(cursor.fetchmany(2))
    except psycopg.Error as error:
        print(*steps.failure(error), sep="\n")
    with s.conn.transaction():
        print(s.conn.execute("SELECT 1").fetchall())


def stream(s, table):
    """Rows one by one, and a stream left in the middle."""
    rows = list(s.conn.cursor().stream("SELECT i, repeat('x', 1000) FROM generate_series(1, %s) i", [300]))
    print(len(rows), rows[-1][0])
    for row in s.conn.cursor().stream("SELECT generate_series(1, 100000)"):
        print(row)
        break


def copy_binary(s, table):
    """Typed rows in binary, both ways."""
    s.step("", f"CREATE TABLE {table} (id int, v text, b bytea)", None)
    try:
        with s.conn.cursor().copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text", "bytea"])
            for i in range(1000):
                copy.write_row((i, None if i % 7 == 0 else "v" * (i % 50), bytes([i % 256]) * 20))
        with s.conn.cursor().copy(f"COPY {table} TO STDOUT (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text", "bytea"])
            print(steps.show([(i, v, bytes(b)) for i, v, b in copy.rows()]))
    except psycopg.Error as error:
        print(*steps.failure(error), sep="\n")


def crowd(s, table):
    """Many clients on few backends; their statements differ, the names do not."""
    s.step("", f"CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL)", None)
    s.step("", f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, {CROWD}) i", None)
    faults = []

    def member(i):
        try:
            with psycopg.connect(s.dsn, prepare_threshold=0) as conn:
                for r in range(ROUNDS):
                    with conn.transaction():
                        got = conn.execute(f"SELECT %s::int + {i}", [1000 * r]).fetchone()
                        conn.execute(f"UPDATE {table} SET v = v + 1 WHERE id = %s", [i])
                    if got != (1000 * r + i,):
                        faults.append(f"! client {i}, round {r}: {got}")
        except Exception as error:
            faults.append(f"! client {i}: {error}")

    members = [threading.Thread(target=member, args=[i + 1]) for i in range(CROWD)]
    for m in members:
        m.start()
    for m in members:
        m.join()
    print(*faults, sep="\n")
    s.step("", f"SELECT count(*), sum(v), min(v), max(v) FROM {table}", None)


SCENARIOS = [
    ("own_pipeline", [], pipeline),
    ("own_executemany", [], executemany),
    ("own_prepared", [], prepared),
    ("own_transactions", [], transactions),
    ("own_nested", ["savepoint"], nested),
    ("own_cursor", ["cursor"], server_cursor),
    ("own_stream", [], stream),
    ("own_copy", ["copy"], copy_binary),
    ("own_crowd", [], crowd),
]
