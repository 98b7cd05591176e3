// node-postgres as a client of the driver matrix.
//
//     node play.js <connection string> <directory of scenarios>
//
// Plays every scenario and prints the transcripts, each after a line
// "== name feature feature". The language of the files is in ../doc.go.
'use strict'

const fs = require('fs')
const path = require('path')
const { own } = require('./own.js')
const { Session, parse, play, say, table } = require('./steps.js')

async function main(dsn, directory) {
  for (const file of fs.readdirSync(directory).sort()) {
    if (!file.endsWith('.txt')) continue
    const scenario = parse(path.basename(file, '.txt'), fs.readFileSync(path.join(directory, file), 'utf8'))
    say(['==', scenario.name, ...scenario.needs].join(' '))
    await play(scenario, dsn)
  }
  for (const { name, needs, run } of own) {
    say(['==', name, ...needs].join(' '))
    const session = await Session.open(dsn)
    await run(session, table(name))
    await session.finish()
    await session.close()
  }
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
