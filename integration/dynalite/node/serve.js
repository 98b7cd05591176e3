// Runs dynalite on a free port of the loopback, which it prints. Its own command
// line takes port 0 for no port.
const server = require('dynalite')({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 })
server.listen(0, '127.0.0.1', () => console.log(`listening at http://127.0.0.1:${server.address().port}`))
