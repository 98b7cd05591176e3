exports.up = function (knex) {
  return knex.schema.alterTable('books', function (table) {
    table.integer('stock').notNullable().defaultTo(0)
  })
}

exports.down = function (knex) {
  return knex.schema.alterTable('books', function (table) {
    table.dropColumn('stock')
  })
}
