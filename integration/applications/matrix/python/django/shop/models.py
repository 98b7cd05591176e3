from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=100)
    email = models.EmailField(unique=True)
    born = models.DateField(null=True, blank=True, db_index=True)


class Tag(models.Model):
    name = models.CharField(max_length=30, unique=True)


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    title = models.CharField(max_length=200, db_index=True)
    pages = models.IntegerField()
    stock = models.IntegerField(default=0)
    details = models.JSONField(default=dict)
    tags = models.ManyToManyField(Tag)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["author", "title"], name="book_once")]


class Item(models.Model):
    name = models.CharField(max_length=50)
    value = models.IntegerField()


class Counter(models.Model):
    name = models.CharField(max_length=50, unique=True)
    n = models.IntegerField(default=0)


class Entry(models.Model):
    counter = models.ForeignKey(Counter, on_delete=models.PROTECT)
    label = models.CharField(max_length=50)
