const { EntitySchema } = require('typeorm')

const id = { type: Number, primary: true, generated: true }

const Author = new EntitySchema({
  name: 'Author',
  columns: {
    id,
    name: { type: String },
    email: { type: String, unique: true },
    born: { type: 'date', nullable: true }
  },
  relations: { books: { type: 'one-to-many', target: 'Book', inverseSide: 'author', cascade: true } },
  indices: [{ columns: ['born'] }]
})

const Book = new EntitySchema({
  name: 'Book',
  columns: { id, title: { type: String, length: 200 }, pages: { type: Number }, stock: { type: Number, default: 0 }, details: { type: 'jsonb', nullable: true } },
  relations: { author: { type: 'many-to-one', target: 'Author', inverseSide: 'books', joinColumn: true, nullable: false, onDelete: 'CASCADE' } },
  indices: [{ columns: ['title'] }],
  uniques: [{ columns: ['author', 'title'] }]
})

const Item = new EntitySchema({ name: 'Item', columns: { id, name: { type: String }, value: { type: Number } } })

const Counter = new EntitySchema({ name: 'Counter', columns: { id, name: { type: String, unique: true }, n: { type: Number, default: 0 } } })

const Entry = new EntitySchema({
  name: 'Entry',
  columns: { id, label: { type: String } },
  relations: { counter: { type: 'many-to-one', target: 'Counter' } }
})

module.exports = { Author, Book, Item, Counter, Entry }
