// How every application in JavaScript is called, and how it answers (see ../doc.go).
const fs = require('node:fs')
const path = require('node:path')

const [phase, url, ...sizes] = process.argv.slice(2)
const [bulk, rows, writers, transactions] = sizes.map(Number)

// failure is SQLSTATE and message, as the driver below all layers has them.
function failure (e) {
  for (let at = e; at; at = at.cause || at.original || at.parent || at.driverError) {
    if (/^[0-9A-Z]{5}$/.test(at.code || '') && at.severity) return [at.code, at.original ? at.original.message : at.message]
  }
  if (e.errors && e.errors.length > 0 && e.errors[0] instanceof Error) return failure(e.errors[0])
  return ['-', `${e.name}: ${e.message}`]
}

// Standard output is for the lines of steps alone: what tools log goes to standard error.
const say = line => process.stdout.write(line + '\n')
console.log = console.info = console.error

const oneLine = s => s.replace(/\s+/g, ' ').trim()

async function step (name, work) {
  try {
    const values = await work()
    say(`step ${name}: ok ${oneLine(JSON.stringify(values) || '')}`)
    return true
  } catch (e) {
    say(`step ${name}: error ${oneLine(failure(e).join(' '))}`)
    return false
  }
}

// chain goes through steps each of which needs the one before, each through steps that do not.
async function chain (named) {
  for (const [name, work] of Object.entries(named)) if (!await step(name, work)) return
}

async function each (named) {
  for (const [name, work] of Object.entries(named)) await step(name, work)
}

// crowd calls work(writer, transaction) by all writers at once.
async function crowd (work) {
  const all = await Promise.allSettled(range(0, writers).map(async number => {
    for (let i = 0; i < transactions; i++) await work(number, i)
  }))
  for (const one of all) if (one.status === 'rejected') throw one.reason
}

const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i)

// caught is the SQLSTATE that work fails with.
async function caught (work) {
  try {
    await work()
    return 'none'
  } catch (e) {
    return failure(e)[0]
  }
}

// run goes through a phase of an application, whose parts are functions of step names.
async function run (tool, { up, use, down, end }) {
  const { version } = JSON.parse(fs.readFileSync(path.join(__dirname, 'node_modules', tool, 'package.json')))
  say(`tool ${version.split('.').slice(0, 2).join('.')}`)
  if (phase === 'up') await chain(up)
  else if (phase === 'use') await each(use)
  else await chain(down)
  await end()
}

module.exports = { phase, url, bulk, rows, writers, transactions, range, caught, crowd, run }
