exports.up = function (knex) {
  return knex.schema.alterTable('books', function (table) {
    table.string('title', 200).alter()
  })
}

exports.down = function (knex) {
  return knex.schema.alterTable('books', function (table) {
    table.string('title', 100).alter()
  })
}
