// Scenarios from files, played with node-postgres.
'use strict'

const crypto = require('crypto')
const { setTimeout: sleep } = require('timers/promises')
const util = require('util')
const { Client } = require('pg')

const END = ['ROLLBACK', "SELECT 'alive' AS state"]
const LONGEST = 300
const UNTIL_LIMIT = 20000 // ms

const say = (line) => process.stdout.write(line + '\n')
const table = (scenario) => 'node_' + scenario

function parse(name, text) {
  const scenario = { name, needs: [], steps: [] }
  for (let row of text.split('\n')) {
    row = row.trim()
    if (row.startsWith('needs ')) scenario.needs.push(...row.split(/\s+/).slice(1))
    else if (row && !row.startsWith('#')) scenario.steps.push(step(row.replaceAll('{t}', table(name))))
  }
  for (const sql of END) scenario.steps.push({ session: 'a', mark: '', sql })
  return scenario
}

// cut splits at the first separator; the second half is undefined without one.
function cut(text, separator) {
  const at = text.indexOf(separator)
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + separator.length)]
}

function step(row) {
  const [body, args] = cut(row, ' <- ')
  const [head, rest = ''] = cut(body, ' ')
  let [mark, sql] = [head.slice(1), rest.trim()]
  if (sql.startsWith('!')) [mark, sql = ''] = cut(sql, ' ')
  return { session: head[0], mark, sql, args: args && JSON.parse(args).map(argument) }
}

function argument(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  if ('bytes' in value) return Buffer.from(value.bytes, 'hex')
  if ('time' in value) return value.time // a Date has no microseconds
  return value.repeat[0].repeat(value.repeat[1])
}

async function play(scenario, dsn) {
  const sessions = {}
  for (const { session, mark, sql, args } of scenario.steps) {
    sessions[session] ??= await Session.open(dsn)
    say(`${session}${mark}: ${sql}`)
    await sessions[session].step(mark, sql, args)
  }
  for (const session of Object.values(sessions)) await session.close()
}

function show(value) {
  const text = util.inspect(value, { depth: 10, breakLength: Infinity, maxArrayLength: null, maxStringLength: null })
  if (text.length <= LONGEST) return text
  return `${typeof value} of ${text.length}, md5 ${crypto.createHash('md5').update(text).digest('hex')}`
}

// failure is the lines of an error; the first is what any client shows of it.
function failure(error) {
  if (!error.severity) return [`! the client: ${error.message}`]
  const rest = [error.detail, error.hint, error.position, error.where, error.schema, error.table, error.column,
    error.dataType, error.constraint]
  const lines = [`! ${error.severity} ${error.code} ${error.message}`]
  return rest.some(Boolean) ? [...lines, `!   ${JSON.stringify(rest)}`] : lines
}

// results is the lines of what a query returned: one result, or one for each
// statement of a string.
function results(result) {
  const lines = []
  for (const r of [].concat(result)) {
    if (r.fields.length) lines.push('| ' + r.fields.map((f) => `${f.name}:${f.dataTypeID}/${f.format}`).join(' '))
    for (const row of r.rows) lines.push('| ' + row.map(show).join(' '))
    lines.push(`= ${r.command} ${r.rowCount}`)
  }
  return lines
}

// Session is one connection.
class Session {
  static async open(dsn, options = {}) {
    const s = new Session()
    s.dsn = dsn
    s.client = new Client({ connectionString: dsn, ...options })
    s.notices = []
    s.notified = []
    s.names = new Map()
    s.client.on('notice', (n) => s.notices.push(`~ ${n.severity} ${n.code} ${n.message}`))
    s.client.on('notification', (n) => s.notified.push(n))
    s.client.on('error', () => {}) // the scenarios that kill show it at the next query
    await s.client.connect()
    return s
  }

  async close() {
    await this.wait()
    if (!this.killed) await this.client.end()
  }

  // finish is every scenario's end: the session rolls back and still works.
  async finish() {
    for (const sql of END) {
      say(`a: ${sql}`)
      await this.step('', sql)
    }
  }

  async step(mark, sql, args) {
    switch (mark) {
      case '':
      case '*': {
        const lines = await this.query(sql, args, mark === '*')
        this.deaf ||= sql.startsWith('LISTEN') && lines[0].startsWith('!')
        return say(lines.join('\n'))
      }
      case '&':
        this.running = this.query(sql, args)
        return sleep(0)
      case '!wait':
        return say((await this.wait()).join('\n'))
      case '!cancel':
        return new Client({ connectionString: this.dsn }).cancel(this.client, this.active)
      case '!kill':
        this.killed = true
        return void this.client.connection.stream.destroy()
      case '!until':
        return this.until(sql)
      case '!notified':
        return this.waitNotified()
      default:
        // COPY is not node-postgres's: it refuses the server's invitation.
        return say((await this.query(sql)).join('\n'))
    }
  }

  async wait() {
    const lines = await this.running
    this.running = undefined
    return lines ?? []
  }

  // attempt is the lines of run, or those of its error, with notices behind.
  async attempt(run) {
    let lines
    try {
      lines = await run()
    } catch (error) {
      lines = failure(error)
    }
    return lines.concat(this.notices.splice(0))
  }

  query(sql, args, prepared) {
    const config = { text: sql, values: args, rowMode: 'array' }
    if (prepared) {
      if (!this.names.has(sql)) this.names.set(sql, 'statement ' + this.names.size)
      config.name = this.names.get(sql)
    }
    return this.attempt(async () => {
      const done = this.client.query(config)
      this.active = this.client._getActiveQuery() // what a cancel must name
      return results(await done)
    })
  }

  async until(sql) {
    for (const end = Date.now() + UNTIL_LIMIT; Date.now() < end; await sleep(10)) {
      const result = await this.client.query({ text: sql, rowMode: 'array' })
      if (result.rows[0][0]) return
    }
    say(`! not within ${UNTIL_LIMIT} ms`)
  }

  async waitNotified() {
    if (this.deaf) return say('! deaf')
    while (this.notified.length === 0) await sleep(5)
    const n = this.notified.shift()
    say(`* ${n.channel} ${n.payload}`)
  }
}

module.exports = { Session, failure, parse, play, results, say, show, table }
