// Prisma, with the migrations that prisma migrate writes. The client's query engine is a part of its npm package. The
// engine of prisma migrate is a program that no registry has: its files are run here as it runs them, each as one
// request, with a row in its table.
const fs = require('node:fs')
const path = require('node:path')
const { Client } = require('pg')
const { PrismaPg } = require('@prisma/adapter-pg')
const { PrismaClient, Prisma } = require('./prisma/generated')
const steps = require('./steps')

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: steps.url, max: steps.writers }), transactionOptions: { maxWait: 60000, timeout: 60000 } })
const folder = path.join(__dirname, 'prisma', 'migrations')

// withClient does what the engine of prisma migrate does by a connection of its own.
async function withClient (work) {
  const client = new Client({ connectionString: steps.url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

const tables = async client => (await client.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1")).rows.map(r => r.table_name)

const upTo = number => () => withClient(async client => {
  const { rows: [{ there }] } = await client.query("SELECT to_regclass('_prisma_migrations') IS NOT NULL AS there")
  if (!there) {
    await client.query('CREATE TABLE _prisma_migrations (id VARCHAR(36) PRIMARY KEY NOT NULL, checksum VARCHAR(64) NOT NULL, finished_at TIMESTAMPTZ, migration_name VARCHAR(255) NOT NULL, ' +
      'logs TEXT, rolled_back_at TIMESTAMPTZ, started_at TIMESTAMPTZ NOT NULL DEFAULT now(), applied_steps_count INTEGER NOT NULL DEFAULT 0)')
  }
  const done = (await client.query('SELECT migration_name FROM _prisma_migrations')).rows.map(r => r.migration_name)
  for (const name of fs.readdirSync(folder).sort().slice(0, number)) {
    if (done.includes(name)) continue
    await client.query(fs.readFileSync(path.join(folder, name, 'migration.sql'), 'utf8'))
    await client.query('INSERT INTO _prisma_migrations (id, checksum, finished_at, migration_name, applied_steps_count) VALUES ($1, $2, now(), $3, 1)', [name, '', name])
  }
  return tables(client)
})

async function crud () {
  const author = await prisma.author.create({ data: { name: 'Frank', email: 'frank@example.com', books: { create: { title: 'Dune', pages: 412, details: { tags: ['sand'], year: 1965 } } } } })
  const book = await prisma.book.findFirstOrThrow({ where: { details: { path: ['year'], equals: 1965 } } })
  const said = [author.id, book.id, book.authorId, book.title, book.pages, book.details]
  said.push((await prisma.book.update({ where: { id: book.id }, data: { pages: { increment: 89 } } })).pages)
  said.push((await prisma.author.upsert({ where: { email: 'frank@example.com' }, update: { name: 'Herbert' }, create: { name: 'Herbert' } })).name)
  await prisma.author.delete({ where: { id: author.id } })
  return said.concat(await prisma.author.count(), await prisma.book.count()).map(v => v === author.id || v === book.id ? typeof v : v)
}

async function relations () {
  const made = []
  for (const name of ['ann', 'bob']) made.push(await prisma.author.create({ data: { name, email: `${name}@example.com` } }))
  await prisma.book.createMany({ data: steps.range(0, 4).map(i => ({ authorId: made[i % 2].id, title: `book ${i}`, pages: 100 + i })) })
  const said = [(await prisma.book.findMany({ include: { author: true }, orderBy: { title: 'asc' } })).map(b => [b.title, b.author && b.author.name])]
  said.push((await prisma.author.findMany({ include: { books: { orderBy: { title: 'asc' } } }, orderBy: { name: 'asc' } })).map(a => [a.name, a.books.map(b => b.title)]))
  said.push((await prisma.author.findMany({ include: { _count: { select: { books: true } } }, orderBy: { name: 'asc' } })).map(a => [a.name, a._count.books]))
  said.push((await prisma.book.groupBy({ by: ['authorId'], _count: true, _sum: { pages: true }, orderBy: { authorId: 'asc' } })).map(g => [g._count, g._sum.pages]))
  said.push((await prisma.author.findMany({ where: { books: { some: { title: 'book 1' } } } })).map(a => a.name))
  const known = e => e instanceof Prisma.PrismaClientKnownRequestError ? e.code : `${e.name}: ${e.message}`
  const refused = work => work().then(() => 'none', known)
  said.push(await refused(() => prisma.author.create({ data: { name: 'again', email: 'ann@example.com' } })))
  said.push(await refused(() => prisma.book.create({ data: { authorId: made[0].id, title: 'book 0' } })))
  said.push(await refused(() => prisma.book.create({ data: { authorId: 987654, title: 'of nobody' } })))
  said.push((await prisma.$queryRaw`SELECT id, "authorId", repeat('x', id - id + 2) AS x FROM "Book" ORDER BY title LIMIT 1`).map(r => [typeof r.id, typeof r.authorId, r.x]))
  await prisma.author.delete({ where: { id: made[0].id } })
  said.push(await prisma.book.count())
  await prisma.author.delete({ where: { id: made[1].id } })
  return said
}

async function bulk () {
  await prisma.item.createMany({ data: steps.range(0, steps.bulk).map(i => ({ name: `bulk ${i}`, value: i })) })
  const { _count, _sum } = await prisma.item.aggregate({ where: { name: { startsWith: 'bulk' } }, _count: true, _sum: { value: true } })
  return [_count, _sum.value]
}

async function batches () {
  for (let start = 0; start < steps.rows; start += 1000) {
    await prisma.$transaction(tx => tx.item.createMany({ data: steps.range(start, start + 1000).map(i => ({ name: `row ${i}`, value: i })) }))
  }
  return prisma.item.count({ where: { name: { startsWith: 'row' } } })
}

// Prisma streams nothing: its users read page by page, behind a cursor.
async function stream () {
  let many = 0
  let total = 0
  for (let cursor; ;) {
    const page = await prisma.item.findMany({ where: { name: { startsWith: 'row' } }, orderBy: { id: 'asc' }, take: 1000, ...(cursor && { cursor, skip: 1 }) })
    if (page.length === 0) return [many, total]
    many += page.length
    for (const item of page) total += item.value
    cursor = { id: page.at(-1).id }
  }
}

async function writers () {
  const made = []
  for (const i of steps.range(0, 4)) made.push(await prisma.counter.create({ data: { name: `shared ${i}` } }))
  await steps.crowd((number, i) => prisma.$transaction(async tx => {
    const counter = made[(number + i) % 4]
    await tx.entry.create({ data: { counterId: counter.id, label: `${number}/${i}` } })
    await tx.counter.updateMany({ where: { id: counter.id }, data: { n: { increment: 1 } } })
  }))
  return [(await prisma.counter.aggregate({ where: { name: { startsWith: 'shared' } }, _sum: { n: true } }))._sum.n, await prisma.entry.count()]
}

steps.run('prisma', {
  up: { tables: upTo(1), alter: upTo(2), default: upTo(3), widen: upTo(4), again: upTo(4) },
  use: { crud, relations, bulk, batches, stream, writers },
  down: {},
  end: () => prisma.$disconnect()
})
