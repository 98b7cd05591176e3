"""Scenarios from files, played with psycopg."""

import datetime
import hashlib
import json
import os
import re
import socket
import threading
import time

import psycopg

END = "ROLLBACK", "SELECT 'alive' AS state"
LONGEST = 300
UNTIL_LIMIT = 20.0


def table(scenario):
    return "psycopg_" + scenario


class Scenario:
    def __init__(self, name, text):
        self.name, self.needs, self.steps = name, [], []
        for row in text.splitlines():
            row = row.strip()
            if row.startswith("needs "):
                self.needs += row.split()[1:]
            elif row and not row.startswith("#"):
                self.steps.append(step(row.replace("{t}", table(name))))
        self.steps += [("a", "", sql, None) for sql in END]

    def play(self, dsn):
        sessions = {}
        try:
            for name, mark, sql, args in self.steps:
                if name not in sessions:
                    sessions[name] = Session(dsn)
                print(f"{name}{mark}: {sql}")
                sessions[name].step(mark, sql, args)
        finally:
            for session in sessions.values():
                session.close()


def step(row):
    row, _, args = row.partition(" <- ")
    head, _, sql = row.partition(" ")
    name, mark, sql = head[0], head[1:], sql.strip()
    if sql.startswith("!"):
        mark, _, sql = sql.partition(" ")
    return name, mark, sql, [argument(a) for a in json.loads(args)] if args else None


def argument(value):
    if not isinstance(value, dict):
        return value
    kind, of = next(iter(value.items()))
    if kind == "bytes":
        return bytes.fromhex(of)
    if kind == "time":
        return datetime.datetime.fromisoformat(of.replace("Z", "+00:00"))
    text, times = of
    return text * times


def placeholders(sql, args):
    """$1 in psycopg's own spelling; as one may stand twice, they have names."""
    if args is None:
        return sql, None
    return re.sub(r"\$(\d+)", r"%(p\1)s", sql.replace("%", "%%")), {f"p{i + 1}": a for i, a in enumerate(args)}


def show(value):
    text = f"{type(value).__name__}({value!r})"
    if len(text) > LONGEST:
        text = f"{type(value).__name__}({len(text)}, md5 {hashlib.md5(text.encode()).hexdigest()})"
    return text


def failure(error):
    """The lines of an error; the first is what any client shows of it."""
    diag = getattr(error, "diag", None)
    if diag is None or diag.sqlstate is None:
        return [f"! the client: {type(error).__name__}: {error}"]
    lines = [f"! {diag.severity} {diag.sqlstate} {diag.message_primary}"]
    rest = [diag.message_detail, diag.message_hint, diag.statement_position, diag.context, diag.schema_name,
            diag.table_name, diag.column_name, diag.datatype_name, diag.constraint_name]
    return lines + ([f"!   {rest}"] if any(rest) else [])


class Session:
    """One connection, in autocommit: transactions are the scenario's own."""

    def __init__(self, dsn):
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.notices, self.notified = [], []
        self.conn.add_notice_handler(
            lambda n: self.notices.append(f"~ {n.severity} {n.sqlstate} {n.message_primary}"))
        # Those that come with an answer; the others are read by notifies().
        self.conn.add_notify_handler(self.notified.append)
        self.notifies = self.conn.notifies()
        self.thread, self.heard, self.deaf = None, [], False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.wait()
        self.conn.close()

    def finish(self):
        """Every scenario's end: the session rolls back and still works."""
        for sql in END:
            print(f"a: {sql}")
            self.step("", sql, None)

    def step(self, mark, sql, args):
        if mark in ("", "*"):
            lines = self.query(sql, args, mark == "*")
            self.deaf = self.deaf or sql.startswith("LISTEN") and lines[0].startswith("!")
            print(*lines, sep="\n")
        elif mark == "&":
            self.thread = threading.Thread(target=lambda: self.heard.extend(self.query(sql, args, False)))
            self.thread.start()
        elif mark == "!wait":
            self.wait()
            print(*self.heard, sep="\n")
            self.heard = []
        elif mark == "!cancel":
            self.conn.cancel()
        elif mark == "!kill":
            with socket.socket(fileno=os.dup(self.conn.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)
        elif mark == "!until":
            self.until(sql)
        elif mark == "!notified":
            self.wait_notified()
        elif mark in ("!copyin", "!copyfail"):
            print(*self.copy_in(sql, args, mark == "!copyfail"), sep="\n")
        elif mark == "!copyout":
            print(*self.copy_out(sql), sep="\n")

    def wait(self):
        if self.thread:
            self.thread.join()
            self.thread = None

    def attempt(self, play):
        """The lines of play, or those of its error; the session's state behind them."""
        try:
            lines = play()
        except Exception as error:
            lines = failure(error)
        lines += self.notices
        self.notices.clear()
        return lines + [f"  {self.conn.info.transaction_status.name}"]

    def query(self, sql, args, prepare):
        def play():
            text, values = placeholders(sql, args)
            cursor = self.conn.execute(text, values, prepare=prepare or None)
            return results(cursor)
        return self.attempt(play)

    def until(self, sql):
        end = time.monotonic() + UNTIL_LIMIT
        while time.monotonic() < end:
            if self.conn.execute(sql).fetchone()[0]:
                return
            time.sleep(0.01)
        print(f"! not within {UNTIL_LIMIT} s")

    def wait_notified(self):
        if self.deaf:
            print("! deaf")
            return
        n = self.notified.pop(0) if self.notified else next(self.notifies)
        print(f"* {n.channel} {n.payload}")

    def copy_in(self, sql, chunks, fail):
        def play():
            with self.conn.cursor() as cursor:
                with cursor.copy(sql) as copy:
                    for chunk in chunks:
                        copy.write(chunk)
                    if fail:
                        raise RuntimeError("no more of it")
                return [f"= {cursor.statusmessage}"]
        return self.attempt(play)

    def copy_out(self, sql):
        def play():
            with self.conn.cursor() as cursor:
                with cursor.copy(sql) as copy:
                    data = b"".join(copy)
                return ["| " + show(data), f"= {cursor.statusmessage}"]
        return self.attempt(play)


def results(cursor):
    """Every result set of a cursor: columns, rows, tag."""
    lines = []
    while True:
        if cursor.description is not None:
            lines.append("| " + " ".join(f"{c.name}:{c.type_code}" for c in cursor.description))
            lines += ["| " + " ".join(show(v) for v in row) for row in cursor.fetchall()]
        lines.append(f"= {cursor.statusmessage}")
        if not cursor.nextset():
            return lines
