const { DataTypes } = require('sequelize')

module.exports = sequelize => {
  const Author = sequelize.define('Author', { name: DataTypes.STRING, email: DataTypes.STRING })
  const Book = sequelize.define('Book', { title: DataTypes.STRING, pages: DataTypes.INTEGER, details: DataTypes.JSON })
  const Item = sequelize.define('Item', { name: DataTypes.STRING, value: DataTypes.INTEGER })
  const Counter = sequelize.define('Counter', { name: DataTypes.STRING, n: { type: DataTypes.INTEGER, defaultValue: 0 } })
  const Entry = sequelize.define('Entry', { label: DataTypes.STRING })
  Author.hasMany(Book)
  Book.belongsTo(Author)
  Counter.hasMany(Entry)
  Entry.belongsTo(Counter)
  return { Author, Book, Item, Counter, Entry }
}
