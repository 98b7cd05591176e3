'use strict'

// What model:generate writes, with what the manual adds for keys of other tables.
const model = (Sequelize, columns) => ({
  id: { allowNull: false, autoIncrement: true, primaryKey: true, type: Sequelize.INTEGER },
  ...columns,
  createdAt: { allowNull: false, type: Sequelize.DATE },
  updatedAt: { allowNull: false, type: Sequelize.DATE }
})

/** @type {import('sequelize-cli').Migration} */
module.exports = {
  async up (queryInterface, Sequelize) {
    await queryInterface.createTable('Authors', model(Sequelize, {
      name: { type: Sequelize.STRING },
      email: { type: Sequelize.STRING, unique: true }
    }))
    await queryInterface.createTable('Books', model(Sequelize, {
      AuthorId: { type: Sequelize.INTEGER, references: { model: 'Authors', key: 'id' }, onUpdate: 'CASCADE', onDelete: 'CASCADE' },
      title: { type: Sequelize.STRING(100) },
      pages: { type: Sequelize.INTEGER },
      details: { type: Sequelize.JSON }
    }))
    await queryInterface.addIndex('Books', ['title'])
    await queryInterface.addConstraint('Books', { fields: ['AuthorId', 'title'], type: 'unique', name: 'book_once' })
    await queryInterface.createTable('Items', model(Sequelize, { name: { type: Sequelize.STRING }, value: { type: Sequelize.INTEGER } }))
    await queryInterface.createTable('Counters', model(Sequelize, {
      name: { type: Sequelize.STRING, unique: true },
      n: { type: Sequelize.INTEGER, allowNull: false, defaultValue: 0 }
    }))
    await queryInterface.createTable('Entries', model(Sequelize, {
      CounterId: { type: Sequelize.INTEGER, references: { model: 'Counters', key: 'id' } },
      label: { type: Sequelize.STRING }
    }))
  },

  async down (queryInterface, Sequelize) {
    for (const table of ['Entries', 'Counters', 'Items', 'Books', 'Authors']) await queryInterface.dropTable(table)
  }
}
