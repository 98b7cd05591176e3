// Knex, a query builder with migrations of its own.
const path = require('node:path')
const steps = require('./steps')

const knex = require('knex')({
  client: 'pg',
  connection: steps.url,
  pool: { min: 0, max: steps.writers },
  migrations: { directory: path.join(__dirname, 'knex') }
})

const tables = async () => (await knex('information_schema.tables').where({ table_schema: 'public' }).orderBy('table_name').pluck('table_name')).join()

const next = async () => {
  await knex.migrate.up()
  return tables()
}

async function crud () {
  const [{ id }] = await knex('authors').insert({ name: 'Frank', email: 'frank@example.com' }).returning('id')
  await knex('books').insert({ author_id: id, title: 'Dune', pages: 412, details: { tags: ['sand'], year: 1965 } })
  const book = await knex('books').whereJsonPath('details', '$.year', '=', 1965).first('title', 'pages', 'details')
  const said = [book, await knex('books').where('title', 'Dune').increment('pages', 89)]
  said.push(await knex('books').where({ author_id: id }).pluck('pages'))
  said.push(await knex('authors').insert({ name: 'Herbert', email: 'frank@example.com' }).onConflict('email').merge().returning('name'))
  said.push(await knex('authors').where('name', 'Herbert').del())
  return said.concat(await knex('authors').count(), await knex('books').count())
}

async function relations () {
  const authors = await knex('authors').insert(['ann', 'bob'].map(name => ({ name, email: `${name}@example.com` }))).returning('*')
  await knex('books').insert(steps.range(0, 4).map(i => ({ author_id: authors[i % 2].id, title: `book ${i}`, pages: 100 + i })))
  const said = [await knex('books').join('authors', 'authors.id', 'books.author_id').select('title', 'name').orderBy('title')]
  said.push(await knex('authors').leftJoin('books', 'authors.id', 'books.author_id').groupBy('name').orderBy('name').select('name').count('books.id').sum('pages'))
  said.push(await steps.caught(() => knex('authors').insert({ name: 'again', email: 'ann@example.com' })))
  said.push(await steps.caught(() => knex('books').insert({ author_id: authors[0].id, title: 'book 0' })))
  said.push(await steps.caught(() => knex('books').insert({ author_id: 987654, title: 'of nobody' })))
  await knex('authors').where('name', 'ann').del()
  return said.concat(await knex('books').count())
}

async function nested () {
  await knex.transaction(async trx => {
    await trx('items').insert({ name: 'outer', value: 1 })
    await trx.transaction(async inner => {
      await inner('items').insert({ name: 'lost', value: 2 })
      throw new Error('lost')
    }).catch(() => {})
    await trx.transaction(async inner => {
      await inner('counters').insert({ name: 'twice' })
      await inner('counters').insert({ name: 'twice' })
    }).catch(() => {})
    await trx.transaction(inner => inner('items').insert({ name: 'inner', value: 3 }))
  })
  const said = [await knex('items').orderBy('value').pluck('name'), await knex('counters').count()]
  await knex('items').del()
  return said
}

async function bulk () {
  await knex.batchInsert('items', steps.range(0, steps.bulk).map(i => ({ name: `bulk ${i}`, value: i })), 1000)
  return knex('items').whereLike('name', 'bulk%').count().sum('value')
}

async function batches () {
  for (let start = 0; start < steps.rows; start += 1000) {
    await knex.transaction(trx => trx('items').insert(steps.range(start, start + 1000).map(i => ({ name: `row ${i}`, value: i }))))
  }
  return knex('items').whereLike('name', 'row%').count()
}

async function stream () {
  let count = 0
  let total = 0
  for await (const item of knex('items').whereLike('name', 'row%').orderBy('value').stream()) {
    count++
    total += item.value
  }
  return [count, total]
}

async function writers () {
  const counters = await knex('counters').insert(steps.range(0, 4).map(i => ({ name: `shared ${i}` }))).returning('id')
  await steps.crowd((number, i) => knex.transaction(async trx => {
    const { id } = counters[(number + i) % 4]
    await trx('entries').insert({ counter_id: id, label: `${number}/${i}` })
    await trx('counters').where({ id }).increment('n', 1)
  }))
  return [await knex('counters').whereLike('name', 'shared%').sum('n'), await knex('entries').count()]
}

steps.run('knex', {
  up: { tables: next, alter: next, default: next, widen: next, again: () => knex.migrate.latest().then(([, ran]) => ran) },
  use: { crud, relations, nested, bulk, batches, stream, writers },
  down: { down: () => knex.migrate.rollback(undefined, true).then(tables) },
  end: () => knex.destroy()
})
