exports.up = function (knex) {
  return knex.schema.alterTable('authors', function (table) {
    table.date('born').index()
  })
}

exports.down = function (knex) {
  return knex.schema.alterTable('authors', function (table) {
    table.dropColumn('born')
  })
}
