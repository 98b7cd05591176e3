DROP TABLE entries, counters, items, books, authors;
