// TypeORM, with the migrations that its program generates.
const steps = require('./steps')
const source = require('./typeorm/source')
const { Like } = require('typeorm')

const [authors, books, items, counters, entries] = ['Author', 'Book', 'Item', 'Counter', 'Entry'].map(name => () => source.getRepository(name))

const tables = async () => (await source.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1")).map(r => r.table_name)

// The program runs all migrations that there are: here there is one more each time.
const all = source.options.migrations
const upTo = number => async () => {
  const files = require('node:fs').readdirSync(`${__dirname}/typeorm/migrations`).sort().slice(0, number)
  source.setOptions({ migrations: files.map(f => `${__dirname}/typeorm/migrations/${f}`) })
  if (source.isInitialized) await source.destroy()
  await source.initialize()
  await source.runMigrations()
  return tables()
}

async function again () {
  const ran = await source.runMigrations()
  const sql = await source.driver.createSchemaBuilder().log()
  return [ran.length, sql.upQueries.map(q => q.query)]
}

async function down () {
  source.setOptions({ migrations: all })
  await source.initialize()
  for (const _ of source.migrations) await source.undoLastMigration()
  return tables()
}

async function crud () {
  const author = await authors().save({ name: 'Frank', email: 'frank@example.com', books: [{ title: 'Dune', pages: 412, details: { tags: ['sand'], year: 1965 } }] })
  const book = await books().createQueryBuilder('b').where("b.details ->> 'year' = :year", { year: '1965' }).getOneOrFail()
  const said = [book.title, book.pages, book.details]
  book.pages += 88
  await books().save(book)
  said.push((await books().increment({ title: 'Dune' }, 'pages', 1)).affected)
  said.push((await books().findOneByOrFail({ id: book.id })).pages)
  await authors().upsert({ name: 'Herbert', email: 'frank@example.com' }, ['email'])
  said.push((await authors().findOneByOrFail({ id: author.id })).name)
  await authors().remove(author)
  return said.concat(await authors().count(), await books().count())
}

async function relations () {
  const made = await authors().save(['ann', 'bob'].map(name => ({ name, email: `${name}@example.com` })))
  await books().save(steps.range(0, 4).map(i => ({ author: made[i % 2], title: `book ${i}`, pages: 100 + i })))
  const said = [(await books().find({ relations: { author: true }, order: { title: 'ASC' } })).map(b => [b.title, b.author.name])]
  said.push((await authors().find({ relations: { books: true }, order: { name: 'ASC', books: { title: 'ASC' } } })).map(a => [a.name, a.books.map(b => b.title)]))
  said.push(await books().createQueryBuilder('b').innerJoin('b.author', 'a').select('a.name', 'name').addSelect('count(*)', 'many').addSelect('sum(b.pages)', 'pages').groupBy('a.name').orderBy('a.name').getRawMany())
  said.push(await steps.caught(() => authors().insert({ name: 'again', email: 'ann@example.com' })))
  said.push(await steps.caught(() => books().insert({ author: made[0], title: 'book 0', pages: 1 })))
  said.push(await steps.caught(() => books().insert({ author: { id: 987654 }, title: 'of nobody', pages: 1 })))
  await authors().remove(made[0])
  said.push(await books().count())
  await authors().remove(made[1]) // on the way down a column NOT NULL is added
  return said
}

async function nested () {
  await source.transaction(async manager => {
    await manager.insert('Item', { name: 'outer', value: 1 })
    await manager.transaction(async inner => {
      await inner.insert('Item', { name: 'lost', value: 2 })
      throw new Error('lost')
    }).catch(() => {})
    await manager.transaction(async inner => {
      await inner.insert('Counter', { name: 'twice' })
      await inner.insert('Counter', { name: 'twice' })
    }).catch(() => {})
    await manager.transaction(inner => inner.insert('Item', { name: 'inner', value: 3 }))
  })
  const said = [(await items().find({ order: { value: 'ASC' } })).map(i => i.name), await counters().count()]
  await items().createQueryBuilder().delete().execute()
  return said
}

async function bulk () {
  await items().save(steps.range(0, steps.bulk).map(i => ({ name: `bulk ${i}`, value: i })), { chunk: 1000 })
  return [await items().countBy({ name: Like('bulk%') }), await items().sum('value', { name: Like('bulk%') })]
}

async function batches () {
  for (let start = 0; start < steps.rows; start += 1000) {
    await source.transaction(manager => manager.insert('Item', steps.range(start, start + 1000).map(i => ({ name: `row ${i}`, value: i }))))
  }
  return items().countBy({ name: Like('row%') })
}

async function stream () {
  let count = 0
  let total = 0
  for await (const item of await items().createQueryBuilder('i').where("i.name LIKE 'row%'").orderBy('i.value').stream()) {
    count++
    total += item.i_value
  }
  return [count, total]
}

async function enumeration () {
  const { DataSource, EntitySchema } = require('typeorm')
  const person = new EntitySchema({ name: 'Person', columns: { id: { type: 'int', primary: true }, now: { type: 'enum', enum: ['sad', 'ok', 'happy'] } } })
  const other = await new DataSource({ type: 'postgres', url: steps.url, entities: [person] }).initialize()
  try {
    const runner = other.createQueryRunner()
    const { Table } = require('typeorm')
    const table = Table.create(other.getMetadata('Person'), other.driver)
    await runner.createTable(table)
    const people = other.getRepository('Person')
    await people.insert([{ id: 1, now: 'happy' }, { id: 2, now: 'sad' }])
    const said = (await people.find({ order: { now: 'ASC' } })).map(p => [p.id, p.now])
    await runner.dropTable(table)
    return said
  } finally {
    await other.destroy()
  }
}

async function writers () {
  const made = await counters().save(steps.range(0, 4).map(i => ({ name: `shared ${i}` })))
  await steps.crowd((number, i) => source.transaction(async manager => {
    const counter = made[(number + i) % 4]
    await manager.insert('Entry', { counter, label: `${number}/${i}` })
    await manager.increment('Counter', { id: counter.id }, 'n', 1)
  }))
  return [await counters().sum('n', { name: Like('shared%') }), await entries().count()]
}

// Steps of use need a connection: where there is none, each of them says why.
const connected = work => async () => {
  if (!source.isInitialized) await source.initialize()
  return work()
}

const using = Object.fromEntries(Object.entries({ crud, relations, nested, bulk, batches, stream, writers, enum: enumeration }).map(([name, work]) => [name, connected(work)]))

steps.run('typeorm', {
  up: { tables: upTo(1), alter: upTo(2), default: upTo(3), widen: upTo(4), again },
  use: using,
  down: { down },
  end: () => source.isInitialized && source.destroy()
})
