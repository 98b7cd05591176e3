"""The applications that a new project begins with: users, groups, permissions, sessions, the admin's log."""
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

import steps


def up(migrated):
    return (("tables", migrated),)


def down(migrate):
    return [migrate(app, "zero") for app in ("admin", "auth", "contenttypes", "sessions")]


def crud():
    from django.contrib.auth import authenticate
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    User.objects.create_superuser("root", "root@example.com", "secret")
    user = authenticate(username="root", password="secret")
    session = SessionStore()
    session["user"] = user.username
    session.save()
    read = SessionStore(session.session_key)
    said = [user.is_superuser, read["user"]]
    read["n"] = 1
    read.save()
    SessionStore(session.session_key).delete()
    return said + [SessionStore(session.session_key).get("n"), user.delete()[0]]


def relations():
    from django.contrib.admin.models import ADDITION, LogEntry
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.contenttypes.models import ContentType

    group = Group.objects.create(name="editors")
    group.permissions.set(Permission.objects.filter(codename__endswith="_user"))
    user = User.objects.create_user("ann")
    user.groups.add(group)
    said = [user.has_perm("auth.change_user"), user.has_perm("auth.change_group"), Permission.objects.count()]
    LogEntry.objects.log_action(user.pk, ContentType.objects.get_for_model(Group).pk, group.pk, str(group), ADDITION, "made")
    said.append(str(user.logentry_set.select_related("content_type").get().content_type))
    try:
        with transaction.atomic():
            User.objects.create_user("ann")
    except IntegrityError as e:
        said.append(steps.code(e))
    return said + [User.objects.filter(date_joined__gt=timezone.now() - timedelta(days=1)).delete()[0]]


def use():
    return (("crud", crud), ("relations", relations))
