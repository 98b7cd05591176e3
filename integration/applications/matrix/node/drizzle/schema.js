const { pgTable, serial, date, varchar, text, integer, jsonb, unique, index } = require('drizzle-orm/pg-core')
const { relations } = require('drizzle-orm')

const authors = pgTable('authors', {
  id: serial().primaryKey(),
  name: text().notNull(),
  email: varchar({ length: 254 }).unique(),
  born: date()
}, table => [index('born_idx').on(table.born)])

const books = pgTable('books', {
  id: serial().primaryKey(),
  authorId: integer('author_id').notNull().references(() => authors.id, { onDelete: 'cascade' }),
  title: varchar({ length: 200 }).notNull(),
  pages: integer(),
  stock: integer().notNull().default(0),
  details: jsonb()
}, table => [index('title_idx').on(table.title), unique('book_once').on(table.authorId, table.title)])

const items = pgTable('items', { id: serial().primaryKey(), name: text(), value: integer().notNull() })

const counters = pgTable('counters', { id: serial().primaryKey(), name: text().unique(), n: integer().notNull().default(0) })

const entries = pgTable('entries', { id: serial().primaryKey(), counterId: integer('counter_id').references(() => counters.id), label: text() })

module.exports = {
  authors,
  books,
  items,
  counters,
  entries,
  authorsRelations: relations(authors, ({ many }) => ({ books: many(books) })),
  booksRelations: relations(books, ({ one }) => ({ author: one(authors, { fields: [books.authorId], references: [authors.id] }) }))
}
