// Scenarios of node-postgres's own.
'use strict'

const { Client, Pool } = require('pg')
const Cursor = require('pg-cursor')
const { failure, results, say } = require('./steps.js')

const CROWD = 30 // many times the backends behind Sluice
const ROUNDS = 8

const sayAll = (lines) => say(lines.join('\n'))

// pipeline sends queries without waiting for answers; each has a Sync of its own.
async function pipeline(s, table) {
  await s.step('', `CREATE TABLE ${table} (id int PRIMARY KEY)`)
  const client = new Client({ connectionString: s.dsn, pipeline: true })
  await client.connect()
  const ask = (text, values, name) => client.query({ text, values, name, rowMode: 'array' })
  const insert = `INSERT INTO ${table} VALUES ($1)`
  const asked = [
    ask(insert, [1], 'insert'), ask(insert, [2], 'insert'), ask(insert, [1], 'insert'), ask(insert, [3], 'insert'),
    ask('SELECT 1 / $1::int', [0]), ask(`SELECT count(*) FROM ${table}`),
    ask('BEGIN'), ask(insert, [4], 'insert'), ask('SELECT nosuch'), ask(insert, [5], 'insert'), ask('COMMIT'),
    ask('BEGIN'), ask(insert, [6], 'insert'), ask(`SELECT id FROM ${table} ORDER BY id`), ask('COMMIT'),
    ask('SELECT $1::text', ['last']),
  ]
  for (let i = 0; i < 300; i++) asked.push(ask('SELECT $1::int', [i], 'many'))
  for (const answer of await Promise.allSettled(asked)) {
    sayAll(answer.status === 'fulfilled' ? results(answer.value) : failure(answer.reason))
  }
  await client.end()
  await s.step('', `SELECT id FROM ${table} ORDER BY id`)
}

// cursor reads from a portal in pieces, while others use the backends.
async function cursor(s, table) {
  const c = s.client.query(new Cursor('SELECT i, repeat($1, 10) FROM generate_series(1, 25) i', ['x'], { rowMode: 'array' }))
  say(JSON.stringify(await c.read(10)))
  const others = Array.from({ length: 6 }, async () => {
    const other = new Client({ connectionString: s.dsn })
    await other.connect()
    await other.query('SELECT pg_sleep(0.01)')
    await other.end()
  })
  await Promise.all(others)
  say(JSON.stringify(await c.read(10)))
  say(JSON.stringify(await c.read(10)))
  say(JSON.stringify(await c.read(10)))
  const left = s.client.query(new Cursor('SELECT generate_series(1, 100000)'))
  say(`${(await left.read(3)).length}`)
  await left.close()
  await s.step('', 'BEGIN')
  const bad = s.client.query(new Cursor('SELECT 1 / (5 - i) FROM generate_series(1, 9) i'))
  try {
    say(`${(await bad.read(3)).length}`)
    await bad.read(3)
  } catch (error) {
    sayAll(failure(error))
  }
  await bad.close()
  await s.step('', 'SELECT 1')
  await s.step('', 'ROLLBACK')
}

// pieces makes the driver itself read a portal a few rows at a time.
async function pieces(s) {
  for (const rows of [1, 7, 100]) {
    sayAll(await s.attempt(async () => results(await s.client.query(
      { text: 'SELECT i FROM generate_series(1, $1) i', values: [20], rows, rowMode: 'array' }))))
  }
}

// binary asks for results in the binary format.
async function binary(s) {
  for (const text of ['SELECT 1::int4, 2::int2, 3::int8, true', "SELECT 1.5::float8, 'x'::text, '\\x00ff'::bytea", 'SELECT ARRAY[1,2]']) {
    sayAll(await s.attempt(async () => results(await s.client.query({ text, values: [], binary: true, rowMode: 'array' }))))
  }
}

// crowd is a pool of more clients than there are backends. Their statements
// differ, the names do not.
async function crowd(s, table) {
  await s.step('', `CREATE TABLE ${table} (id int PRIMARY KEY, v int NOT NULL)`)
  await s.step('', `INSERT INTO ${table} SELECT i, 0 FROM generate_series(1, ${CROWD}) i`)
  const pool = new Pool({ connectionString: s.dsn, max: CROWD })
  const member = async (id) => {
    const client = await pool.connect()
    const own = client.processID // a pool's client keeps its statements: names belong to one of its users
    for (let round = 0; round < ROUNDS; round++) {
      await client.query('BEGIN')
      const sum = await client.query({ name: 'sum', text: `SELECT $1::int + ${id} AS sum`, values: [1000 * round] })
      await client.query({ name: 'add', text: `UPDATE ${table} SET v = v + 1 WHERE id = $1`, values: [id] })
      await client.query('COMMIT')
      if (sum.rows[0].sum !== 1000 * round + id) say(`! client ${id}, round ${round}: ${sum.rows[0].sum} from ${own}`)
    }
    client.release()
  }
  const members = Array.from({ length: CROWD }, (_, i) => member(i + 1))
  for (const outcome of await Promise.allSettled(members)) {
    if (outcome.status === 'rejected') sayAll(failure(outcome.reason))
  }
  await pool.end()
  await s.step('', `SELECT count(*), sum(v), min(v), max(v) FROM ${table}`)
}

const own = [
  { name: 'own_pipeline', needs: [], run: pipeline },
  { name: 'own_cursor', needs: [], run: cursor },
  { name: 'own_pieces', needs: [], run: pieces },
  { name: 'own_binary', needs: [], run: binary },
  { name: 'own_crowd', needs: [], run: crowd },
]

module.exports = { own }
