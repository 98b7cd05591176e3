// Sequelize, with migrations as its program writes them, run by umzug, as its program does.
const path = require('node:path')
const { Sequelize, DataTypes, Op, fn, col } = require('sequelize')
const { Umzug, SequelizeStorage } = require('umzug')
const steps = require('./steps')

const sequelize = new Sequelize(steps.url, { logging: false, pool: { max: steps.writers } })
const { Author, Book, Item, Counter, Entry } = require('./sequelize/models')(sequelize)

const umzug = new Umzug({
  migrations: {
    glob: ['migrations/*.js', { cwd: path.join(__dirname, 'sequelize') }],
    resolve: ({ name, path: file, context }) => {
      const { up, down } = require(file)
      return { name, up: () => up(context, Sequelize), down: () => down(context, Sequelize) }
    }
  },
  context: sequelize.getQueryInterface(),
  storage: new SequelizeStorage({ sequelize }),
  logger: undefined
})

const tables = async () => (await sequelize.getQueryInterface().showAllTables()).sort()

const next = async () => {
  await umzug.up({ step: 1 })
  return tables()
}

async function crud () {
  const author = await Author.create({ name: 'Frank', email: 'frank@example.com' })
  await author.createBook({ title: 'Dune', pages: 412, details: { tags: ['sand'], year: 1965 } })
  const book = await Book.findOne({ where: { details: { year: 1965 } } })
  const said = [book.title, book.pages, book.details]
  await book.update({ pages: book.pages + 88 })
  await book.increment('pages')
  await book.reload()
  said.push(book.pages)
  const [found, made] = await Author.findOrCreate({ where: { email: 'frank@example.com' }, defaults: { name: 'Other' } })
  said.push(found.name, made)
  await Author.bulkCreate([{ name: 'Herbert', email: 'frank@example.com' }], { updateOnDuplicate: ['name'], conflictAttributes: ['email'] })
  said.push((await author.reload()).name)
  await author.destroy()
  return said.concat(await Author.count(), await Book.count())
}

async function relations () {
  const authors = await Promise.all(['ann', 'bob'].map(name => Author.create({ name, email: `${name}@example.com` })))
  for (const i of steps.range(0, 4)) await authors[i % 2].createBook({ title: `book ${i}`, pages: 100 + i })
  const said = [(await Book.findAll({ include: Author, order: ['title'] })).map(b => [b.title, b.Author.name])]
  said.push((await Author.findAll({ include: Book, order: ['name', [Book, 'title']] })).map(a => [a.name, a.Books.map(b => b.title)]))
  said.push(await Book.findAll({ attributes: [[fn('count', col('Book.id')), 'many'], [fn('sum', col('pages')), 'pages']], include: { model: Author, attributes: ['name'] }, group: ['Author.id', 'Author.name'], order: [[Author, 'name']], raw: true }))
  said.push(await steps.caught(() => Author.create({ name: 'again', email: 'ann@example.com' })))
  said.push(await steps.caught(() => authors[0].createBook({ title: 'book 0' })))
  said.push(await steps.caught(() => Book.create({ AuthorId: 987654, title: 'of nobody' })))
  await authors[0].destroy()
  return said.concat(await Book.count())
}

async function nested () {
  await sequelize.transaction(async transaction => {
    await Item.create({ name: 'outer', value: 1 }, { transaction })
    await sequelize.transaction({ transaction }, async inner => {
      await Item.create({ name: 'lost', value: 2 }, { transaction: inner })
      throw new Error('lost')
    }).catch(() => {})
    await sequelize.transaction({ transaction }, async inner => {
      await Counter.create({ name: 'twice' }, { transaction: inner })
      await Counter.create({ name: 'twice' }, { transaction: inner })
    }).catch(() => {})
    await sequelize.transaction({ transaction }, inner => Item.create({ name: 'inner', value: 3 }, { transaction: inner }))
  })
  const said = [(await Item.findAll({ order: ['value'] })).map(i => i.name), await Counter.count()]
  await Item.destroy({ where: {} })
  return said
}

async function bulk () {
  await Item.bulkCreate(steps.range(0, steps.bulk).map(i => ({ name: `bulk ${i}`, value: i })))
  return [await Item.count({ where: { name: { [Op.like]: 'bulk%' } } }), await Item.sum('value')]
}

async function batches () {
  for (let start = 0; start < steps.rows; start += 1000) {
    await sequelize.transaction(transaction => Item.bulkCreate(steps.range(start, start + 1000).map(i => ({ name: `row ${i}`, value: i })), { transaction }))
  }
  return Item.count({ where: { name: { [Op.like]: 'row%' } } })
}

// Sequelize streams nothing: its users read page by page.
async function stream () {
  let count = 0
  let total = 0
  for (let offset = 0; ; offset += 1000) {
    const page = await Item.findAll({ where: { name: { [Op.like]: 'row%' } }, order: ['value'], limit: 1000, offset })
    if (page.length === 0) return [count, total]
    count += page.length
    for (const item of page) total += item.value
  }
}

async function enumeration () {
  const Person = sequelize.define('Person', { now: { type: DataTypes.ENUM('sad', 'ok', 'happy'), allowNull: false } }, { timestamps: false })
  await Person.sync()
  await Person.bulkCreate([{ id: 1, now: 'happy' }, { id: 2, now: 'sad' }])
  const said = (await Person.findAll({ order: ['now'] })).map(p => [p.id, p.now])
  await Person.drop({})
  return said
}

async function writers () {
  const counters = await Counter.bulkCreate(steps.range(0, 4).map(i => ({ name: `shared ${i}` })))
  await steps.crowd((number, i) => sequelize.transaction(async transaction => {
    const counter = counters[(number + i) % 4]
    await Entry.create({ CounterId: counter.id, label: `${number}/${i}` }, { transaction })
    await Counter.increment('n', { where: { id: counter.id }, transaction })
  }))
  return [await Counter.sum('n', { where: { name: { [Op.like]: 'shared%' } } }), await Entry.count()]
}

steps.run('sequelize', {
  up: { tables: next, alter: next, default: next, widen: next, again: async () => (await umzug.up()).length },
  use: { crud, relations, nested, bulk, batches, stream, writers, enum: enumeration },
  down: { down: () => umzug.down({ to: 0 }).then(tables) },
  end: () => sequelize.close()
})
