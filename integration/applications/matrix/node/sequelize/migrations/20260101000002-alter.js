'use strict'

/** @type {import('sequelize-cli').Migration} */
module.exports = {
  async up (queryInterface, Sequelize) {
    const transaction = await queryInterface.sequelize.transaction()
    try {
      await queryInterface.addColumn('Authors', 'born', { type: Sequelize.DATEONLY }, { transaction })
      await queryInterface.addIndex('Authors', ['born'], { transaction })
      await transaction.commit()
    } catch (err) {
      await transaction.rollback()
      throw err
    }
  },

  async down (queryInterface, Sequelize) {
    await queryInterface.removeColumn('Authors', 'born')
  }
}
