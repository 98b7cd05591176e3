"""The application of one's own: what it does with its rows."""
from django.db import IntegrityError, connection, connections, transaction
from django.db.models import Count, F, Sum

import steps
from shop.models import Author, Book, Counter, Entry, Item, Tag


def up(migrated):
    return (("tables", lambda: migrated("shop", "0001")), ("alter", lambda: migrated("shop", "0002")),
            ("default", lambda: migrated("shop", "0003")), ("widen", lambda: migrated("shop", "0004")))


def down(migrate):
    return migrate("shop", "zero")


def crud():
    author = Author.objects.create(name="Frank", email="frank@example.com")
    book = Book.objects.create(author=author, title="Dune", pages=412, details={"tags": ["sand"], "year": 1965})
    read = Book.objects.get(details__year=1965)
    said = [read.title, read.pages, read.details]
    read.pages += 88
    read.save()
    said.append(Book.objects.filter(pages__gte=500).update(pages=F("pages") + 1))
    book.refresh_from_db()
    said.append(book.pages)
    found, made = Author.objects.get_or_create(email="frank@example.com", defaults={"name": "Other"})
    said += [found.name, made]
    said.append(Author.objects.update_or_create(email="new@example.com", defaults={"name": "New"})[1])
    author.delete()
    return said + [Book.objects.count(), Author.objects.count()]


def relations():
    authors = [Author.objects.create(name=n, email=f"{n}@example.com") for n in ("ann", "bob")]
    tags = [Tag.objects.create(name=n) for n in ("red", "blue")]
    for i in range(4):
        book = Book.objects.create(author=authors[i % 2], title=f"book {i}", pages=100 + i)
        book.tags.set(tags[: i % 3])
    said = [(b.title, b.author.name, sorted(t.name for t in b.tags.all()))
            for b in Book.objects.select_related("author").prefetch_related("tags").order_by("title")]
    said += Author.objects.filter(name__in=("ann", "bob")).annotate(many=Count("books"), pages=Sum("books__pages")).order_by("name").values_list("name", "many", "pages")
    for broken in (lambda: Author.objects.create(name="again", email="ann@example.com"),
                   lambda: Book.objects.create(author=authors[0], title="book 0", pages=1),
                   lambda: Book.objects.create(author_id=987654, title="of nobody", pages=1)):
        try:
            with transaction.atomic():
                broken()
        except IntegrityError as e:
            said.append(steps.code(e))
    authors[0].delete()
    return said + [Book.objects.count()]


def nested():
    with transaction.atomic():
        Item.objects.create(name="outer", value=1)
        try:
            with transaction.atomic():
                Item.objects.create(name="lost", value=2)
                raise KeyError
        except KeyError:
            pass
        try:
            with transaction.atomic():
                Counter.objects.create(name="twice")
                Counter.objects.create(name="twice")
        except IntegrityError:
            pass
        with transaction.atomic():
            Item.objects.create(name="inner", value=3)
    said = list(Item.objects.order_by("value").values_list("name", flat=True)) + [Counter.objects.count()]
    Item.objects.all().delete()
    return said


def bulk():
    Item.objects.bulk_create(Item(name=f"bulk {i}", value=i) for i in range(steps.bulk))
    return list(Item.objects.filter(name__startswith="bulk").aggregate(Count("id"), Sum("value")).values())


def batches():
    for start in range(0, steps.rows, 1000):
        with transaction.atomic():
            Item.objects.bulk_create(Item(name=f"row {i}", value=i) for i in range(start, start + 1000))
    return Item.objects.filter(name__startswith="row").count()


def stream():
    count = total = 0
    for item in Item.objects.filter(name__startswith="row").order_by("value").iterator():
        count, total = count + 1, total + item.value
    return [count, total]


def writers():
    counters = [Counter.objects.create(name=f"shared {i}") for i in range(4)]

    def write(number, i):
        try:
            with transaction.atomic():
                counter = counters[(number + i) % 4]
                Entry.objects.create(counter=counter, label=f"{number}/{i}")
                Counter.objects.filter(pk=counter.pk).update(n=F("n") + 1)
        finally:
            if i == steps.transactions - 1:
                connections.close_all()

    steps.crowd(write)
    return [Counter.objects.filter(name__startswith="shared").aggregate(Sum("n"))["n__sum"], Entry.objects.count()]


def use():
    return (("crud", crud), ("relations", relations), ("nested", nested), ("bulk", bulk), ("batches", batches),
            ("stream", stream), ("writers", writers))
