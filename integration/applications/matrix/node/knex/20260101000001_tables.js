exports.up = function (knex) {
  return knex.schema
    .createTable('authors', function (table) {
      table.increments('id')
      table.string('name', 255).notNullable()
      table.string('email').unique()
      table.timestamps(true, true)
    })
    .createTable('books', function (table) {
      table.increments('id')
      table.integer('author_id').unsigned().notNullable().references('id').inTable('authors').onDelete('CASCADE')
      table.string('title', 100).index()
      table.integer('pages')
      table.jsonb('details')
      table.unique(['author_id', 'title'])
    })
    .createTable('items', function (table) {
      table.increments()
      table.string('name')
      table.integer('value')
    })
    .createTable('counters', function (table) {
      table.increments()
      table.string('name').unique()
      table.integer('n').notNullable().defaultTo(0)
    })
    .createTable('entries', function (table) {
      table.increments()
      table.integer('counter_id').references('counters.id')
      table.string('label')
    })
}

exports.down = function (knex) {
  return knex.schema.dropTable('entries').dropTable('counters').dropTable('items').dropTable('books').dropTable('authors')
}
