"""Runs the statements of its arguments behind the first, which is a connection string, in one transaction."""

import sys

import psycopg

with psycopg.connect(sys.argv[1]) as conn:
    for sql in sys.argv[2:]:
        cursor = conn.execute(sql)
        if cursor.description:
            print(*(row[0] for row in cursor), sep="\n")
