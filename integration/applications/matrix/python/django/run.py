"""Django: an application of one's own (shop), or those that a new project begins with (own)."""
import io
import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import steps

at = urlsplit(steps.url)
own = ["django.contrib." + name for name in ("admin", "auth", "contenttypes", "sessions", "messages")]
settings.configure(
    # What django-admin startproject writes.
    INSTALLED_APPS=own if sys.argv[1] == "own" else ["shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    TIME_ZONE="UTC",
    USE_TZ=True,
    SECRET_KEY="of no use",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": at.path[1:], "USER": at.username, "HOST": at.hostname, "PORT": at.port,
    }},
)
django.setup()

from django.core.management import call_command
from django.db import IntegrityError, connection


def migrate(*to):
    out = io.StringIO()
    call_command("migrate", *to, interactive=False, stdout=out, stderr=out)
    return out.getvalue()


def migrated(*to):
    return f"{migrate(*to).count(' OK')} applied"


def again():
    call_command("makemigrations", check_changes=True, dry_run=True, stdout=io.StringIO())
    return "nothing" if "No migrations to apply" in migrate() else "something"


def left():
    return "left: " + ", ".join(sorted(connection.introspection.table_names()))


def main():
    if sys.argv[1] == "own":
        import own as application
    else:
        import use as application
    print(f"tool {'.'.join(map(str, django.VERSION[:2]))}", flush=True)
    if steps.phase == "up":
        steps.chain(*application.up(migrated), ("again", again))
    elif steps.phase == "use":
        steps.each(*application.use())
    else:
        steps.step("down", lambda: application.down(migrate) and left())


main()
