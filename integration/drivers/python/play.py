"""psycopg 3 as a client of the driver matrix.

    python3 play.py <connection string> <directory of scenarios>

Plays every scenario and prints the transcripts, each after a line
"== name feature feature". The language of the files is in ../doc.go.
"""

import pathlib
import sys

import own
import steps


def main():
    dsn, directory = sys.argv[1:]
    for file in sorted(pathlib.Path(directory).glob("*.txt")):
        scenario = steps.Scenario(file.stem, file.read_text())
        print("==", scenario.name, *scenario.needs)
        scenario.play(dsn)
    for name, needs, play in own.SCENARIOS:
        print("==", name, *needs)
        with steps.Session(dsn) as session:
            play(session, steps.table(name))
            session.finish()


main()
