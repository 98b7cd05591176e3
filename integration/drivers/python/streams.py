"""Python's other clients that read a result in pieces: psycopg2, SQLAlchemy, Django.

    python3 streams.py <connection string> <directory of scenarios>

Each prints what it got, behind a line "== name feature feature". All of them
declare a cursor of the server's and fetch from it, inside a transaction and
WITH HOLD outside of it.
"""

import sys
import urllib.parse

import django
import psycopg2
import sqlalchemy
from django.conf import settings
from django.db import connection, models, transaction

ROWS = 700


def fill(dsn, table):
    """A table of rows that every client reads."""
    conn = psycopg2.connect(dsn)
    conn.autocommit = True
    with conn.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, name text)")
        cursor.execute(f"INSERT INTO {table} SELECT n, 'row ' || n FROM generate_series(1, %s) n", [ROWS])
    conn.close()


def psycopg2_named(dsn):
    """Named cursors, two at a time, moved, closed and left open."""
    fill(dsn, "stream_named")
    conn = psycopg2.connect(dsn)
    for commits in True, False:
        with conn.cursor(name="first", withhold=False, scrollable=False) as one, conn.cursor(name='sec "ond"') as other:
            one.itersize = 100
            one.execute("SELECT id, name FROM stream_named WHERE id > %s ORDER BY id", [10])
            other.execute("SELECT name FROM stream_named ORDER BY id")
            print(one.fetchone(), one.fetchmany(3), other.fetchmany(2), [c.name for c in one.description], one.rowcount, one.rownumber)
            one.scroll(20)
            print(one.fetchone(), sum(row[0] for row in one), other.fetchone(), one.fetchall())
        (conn.commit if commits else conn.rollback)()
    cursor = conn.cursor(name="failing")
    cursor.execute("SELECT 1 / (3 - id) FROM stream_named ORDER BY id")
    try:
        print(cursor.fetchmany(2))
        print(cursor.fetchmany(2))
    except psycopg2.Error as error:
        print(error.pgcode, error.diag.message_primary)
    conn.rollback()
    cursor = conn.cursor(name="failing")
    try:
        cursor.execute("SELECT nosuch FROM stream_named")
    except psycopg2.Error as error:
        print(error.pgcode, error.diag.message_primary, error.diag.statement_position)
    conn.rollback()
    held = conn.cursor(name="held", withhold=True)
    held.itersize = 100
    held.execute("SELECT id, name FROM stream_named ORDER BY id")
    print(held.fetchmany(2))
    conn.commit()
    print(held.fetchmany(2), held.fetchone(), sum(row[0] for row in held))
    held.close()
    conn.rollback()
    conn.autocommit = True
    with conn.cursor(name="back", withhold=True, scrollable=True) as back:
        back.execute("SELECT id FROM stream_named WHERE id <= %s ORDER BY id", [20])
        print(back.fetchmany(5))
        back.scroll(-3)
        print(back.fetchmany(2))
        back.scroll(18, mode="absolute")
        print(back.fetchall())
    try:
        with conn.cursor(name="failing", withhold=True) as failing:
            failing.execute("SELECT 1 / (3 - id) FROM stream_named ORDER BY id")
            print(failing.fetchmany(2))
    except psycopg2.Error as error:
        print(error.pgcode, error.diag.message_primary)
    conn.close()


def sqlalchemy_stream(dsn):
    """stream_results, in the Core and with writes in between."""
    fill(dsn, "stream_core")
    engine = sqlalchemy.create_engine(dsn.replace("postgres://", "postgresql://"))
    table = sqlalchemy.Table("stream_core", sqlalchemy.MetaData(), sqlalchemy.Column("id", sqlalchemy.BigInteger), sqlalchemy.Column("name", sqlalchemy.Text))
    with engine.connect() as conn, conn.begin():
        streamed = conn.execution_options(stream_results=True, max_row_buffer=50)
        result = streamed.execute(sqlalchemy.select(table).where(table.c.id > 5).order_by(table.c.id))
        print(result.fetchone(), len(result.fetchmany(120)))
        conn.execution_options(stream_results=False).execute(table.update().where(table.c.id == 699).values(name="changed"))
        print(sum(row.id for row in result))
    with engine.connect() as conn:
        for part in conn.execution_options(yield_per=300).execute(sqlalchemy.select(table.c.name).order_by(table.c.id)).partitions(300):
            print(len(part), part[-1])
    engine.dispose()


def django_iterator(dsn):
    """iterator() inside atomic(), with a nested block, and outside."""
    fill(dsn, "stream_model")
    url = urllib.parse.urlsplit(dsn)
    query = urllib.parse.parse_qs(url.query)
    settings.configure(USE_TZ=True, TIME_ZONE="UTC", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": url.username, "PASSWORD": url.password or "",
        "HOST": query.get("host", [url.hostname])[0], "PORT": query.get("port", [url.port])[0]}})
    django.setup()

    class Row(models.Model):
        name = models.TextField()

        class Meta:
            app_label = "streams"
            db_table = "stream_model"

    with transaction.atomic():
        print(sum(row.id for row in Row.objects.order_by("id").iterator(chunk_size=100)))
        rows = Row.objects.filter(id__gt=600).order_by("id").iterator(chunk_size=10)
        print(next(rows).name, next(rows).name)
        Row.objects.filter(id=700).update(name="changed")
        print([row.name for row in rows][-2:])
    with transaction.atomic():
        rows = Row.objects.order_by("id").values_list("id", flat=True).iterator(chunk_size=50)
        print(next(rows))
    print(Row.objects.count())
    held = Row.objects.order_by("id").iterator(chunk_size=100)  # declares WITH HOLD
    print(next(held).name)
    with transaction.atomic():
        Row.objects.filter(id=2).update(name="other")
        print(next(held).name)
    print(sum(row.id for row in held))
    connection.close()


def main():
    dsn = sys.argv[1]
    for play in psycopg2_named, sqlalchemy_stream, django_iterator:
        print("==", "stream_" + play.__name__, "cursor")
        play(dsn)


main()
