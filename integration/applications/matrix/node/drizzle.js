// Drizzle, with the migrations that drizzle-kit generates.
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { Pool } = require('pg')
const { drizzle } = require('drizzle-orm/node-postgres')
const { migrate } = require('drizzle-orm/node-postgres/migrator')
const { eq, like, sql, count, sum } = require('drizzle-orm')
const steps = require('./steps')
const schema = require('./drizzle/schema')

const { authors, books, items, counters, entries } = schema
const pool = new Pool({ connectionString: steps.url, max: steps.writers })
const db = drizzle(pool, { schema })
const folder = path.join(__dirname, 'drizzle', 'migrations')

const tables = async () => (await db.execute(sql`SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1`)).rows.map(r => r.table_name)

// Drizzle runs all migrations that its journal lists: here there is one more each time.
const upTo = number => async () => {
  const part = fs.mkdtempSync(path.join(os.tmpdir(), 'drizzle-'))
  try {
    fs.cpSync(folder, part, { recursive: true })
    const file = path.join(part, 'meta', '_journal.json')
    const journal = JSON.parse(fs.readFileSync(file))
    fs.writeFileSync(file, JSON.stringify({ ...journal, entries: journal.entries.slice(0, number) }))
    await migrate(db, { migrationsFolder: part })
  } finally {
    fs.rmSync(part, { recursive: true })
  }
  return tables()
}

async function crud () {
  const [author] = await db.insert(authors).values({ name: 'Frank', email: 'frank@example.com' }).returning()
  await db.insert(books).values({ authorId: author.id, title: 'Dune', pages: 412, details: { tags: ['sand'], year: 1965 } })
  const said = await db.select({ title: books.title, pages: books.pages, details: books.details }).from(books).where(sql`${books.details} ->> 'year' = '1965'`)
  said.push((await db.update(books).set({ pages: sql`${books.pages} + 89` }).where(eq(books.title, 'Dune')).returning({ pages: books.pages })))
  said.push(await db.insert(authors).values({ name: 'Herbert', email: 'frank@example.com' }).onConflictDoUpdate({ target: authors.email, set: { name: 'Herbert' } }).returning({ name: authors.name }))
  await db.delete(authors).where(eq(authors.id, author.id))
  return said.concat(await db.$count(authors), await db.$count(books))
}

async function relations () {
  const made = await db.insert(authors).values(['ann', 'bob'].map(name => ({ name, email: `${name}@example.com` }))).returning()
  await db.insert(books).values(steps.range(0, 4).map(i => ({ authorId: made[i % 2].id, title: `book ${i}`, pages: 100 + i })))
  const said = [(await db.query.books.findMany({ with: { author: true }, orderBy: books.title })).map(b => [b.title, b.author.name])]
  said.push((await db.query.authors.findMany({ with: { books: { orderBy: books.title } }, orderBy: authors.name })).map(a => [a.name, a.books.map(b => b.title)]))
  said.push(await db.select({ name: authors.name, many: count(), pages: sum(books.pages) }).from(authors).leftJoin(books, eq(books.authorId, authors.id)).groupBy(authors.name).orderBy(authors.name))
  said.push(await steps.caught(() => db.insert(authors).values({ name: 'again', email: 'ann@example.com' })))
  said.push(await steps.caught(() => db.insert(books).values({ authorId: made[0].id, title: 'book 0' })))
  said.push(await steps.caught(() => db.insert(books).values({ authorId: 987654, title: 'of nobody' })))
  await db.delete(authors).where(eq(authors.name, 'ann'))
  return said.concat(await db.$count(books))
}

async function nested () {
  await db.transaction(async tx => {
    await tx.insert(items).values({ name: 'outer', value: 1 })
    await tx.transaction(async inner => {
      await inner.insert(items).values({ name: 'lost', value: 2 })
      inner.rollback()
    }).catch(() => {})
    await tx.transaction(async inner => {
      await inner.insert(counters).values({ name: 'twice' })
      await inner.insert(counters).values({ name: 'twice' })
    }).catch(() => {})
    await tx.transaction(inner => inner.insert(items).values({ name: 'inner', value: 3 }))
  })
  const said = [(await db.select({ name: items.name }).from(items).orderBy(items.value)).map(i => i.name), await db.$count(counters)]
  await db.delete(items)
  return said
}

async function bulk () {
  await db.insert(items).values(steps.range(0, steps.bulk).map(i => ({ name: `bulk ${i}`, value: i })))
  return db.select({ many: count(), total: sum(items.value) }).from(items).where(like(items.name, 'bulk%'))
}

async function batches () {
  for (let start = 0; start < steps.rows; start += 1000) {
    await db.transaction(tx => tx.insert(items).values(steps.range(start, start + 1000).map(i => ({ name: `row ${i}`, value: i }))))
  }
  return db.$count(items, like(items.name, 'row%'))
}

// Drizzle streams nothing on PostgreSQL: its users read page by page.
async function stream () {
  let many = 0
  let total = 0
  for (let offset = 0; ; offset += 1000) {
    const page = await db.select().from(items).where(like(items.name, 'row%')).orderBy(items.value).limit(1000).offset(offset)
    if (page.length === 0) return [many, total]
    many += page.length
    for (const item of page) total += item.value
  }
}

// What drizzle-kit generates of pgEnum is CREATE TYPE.
async function enumeration () {
  const { pgEnum, pgTable, integer } = require('drizzle-orm/pg-core')
  const mood = pgEnum('mood', ['sad', 'ok', 'happy'])
  const people = pgTable('people', { id: integer().primaryKey(), now: mood().notNull() })
  await db.execute(sql`CREATE TYPE "public"."mood" AS ENUM('sad', 'ok', 'happy')`)
  await db.execute(sql`CREATE TABLE "people" ("id" integer PRIMARY KEY NOT NULL, "now" "mood" NOT NULL)`)
  await db.insert(people).values([{ id: 1, now: 'happy' }, { id: 2, now: 'sad' }])
  const said = [(await db.select().from(people).orderBy(people.now)).map(p => [p.id, p.now]), await steps.caught(() => db.insert(people).values({ id: 3, now: 'bored' }))]
  await db.execute(sql`DROP TABLE "people"`)
  await db.execute(sql`DROP TYPE "public"."mood"`)
  return said
}

async function writers () {
  const made = await db.insert(counters).values(steps.range(0, 4).map(i => ({ name: `shared ${i}` }))).returning()
  await steps.crowd((number, i) => db.transaction(async tx => {
    const counter = made[(number + i) % 4]
    await tx.insert(entries).values({ counterId: counter.id, label: `${number}/${i}` })
    await tx.update(counters).set({ n: sql`${counters.n} + 1` }).where(eq(counters.id, counter.id))
  }))
  return [await db.select({ n: sum(counters.n) }).from(counters).where(like(counters.name, 'shared%')), await db.$count(entries)]
}

steps.run('drizzle-orm', {
  up: { tables: upTo(1), alter: upTo(2), default: upTo(3), widen: upTo(4), again: upTo(4) },
  use: { crud, relations, nested, bulk, batches, stream, writers, enum: enumeration },
  down: {},
  end: () => pool.end()
})
