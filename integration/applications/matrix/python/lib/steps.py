"""How every application in Python is called, and how it answers (see doc.go)."""
import sys
import threading

phase, url = sys.argv[-6:-4]
bulk, rows, writers, transactions = map(int, sys.argv[-4:])


def failure(e):
    """SQLSTATE and message, as the driver below all layers has them."""
    while e is not None:
        for holder in (e, getattr(e, "orig", None)):
            diag = getattr(holder, "diag", None)
            if diag is not None and diag.sqlstate:
                return diag.sqlstate, diag.message_primary
        last, e = e, e.__cause__ or e.__context__
    return "-", f"{type(last).__name__}: {last}"


def code(e):
    return failure(e)[0]


def step(name, do):
    try:
        line = f"ok {do()}"
    except Exception as e:
        line = "error " + " ".join(failure(e))
    print(f"step {name}: " + " ".join(line.split()), flush=True)
    return line.startswith("ok")


def each(*named):
    """Steps that do not need each other."""
    for name, do in named:
        step(name, do)


def chain(*named):
    """Steps each of which needs the one before."""
    for name, do in named:
        if not step(name, do):
            return


def crowd(do):
    """do(number of the writer, number of its transaction), by all writers at once."""
    failures = []

    def write(number):
        try:
            for i in range(transactions):
                do(number, i)
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
