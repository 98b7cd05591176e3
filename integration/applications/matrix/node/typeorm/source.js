// What TypeORM's program is told, too: typeorm migration:generate -d typeorm/source.js
const path = require('node:path')
const { DataSource } = require('typeorm')

module.exports = new DataSource({
  type: 'postgres',
  url: process.env.DATABASE_URL || require('../steps').url,
  entities: Object.values(require('./entities')),
  migrations: [path.join(__dirname, 'migrations', '*.js')],
  poolSize: 16
})
