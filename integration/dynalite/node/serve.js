// Runs dynalite on a free port of the loopback, which it prints. Its own command
// line takes port 0 for no port.
const server = require('dynalite')({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 })
// A client that goes in the middle of its request fails the request. Dynalite throws that
// error, which would end the process and take every table with it.
server.on('request', req => req.removeAllListeners('error').on('error', () => {}))
server.listen(0, '127.0.0.1', () => console.log(`listening at http://127.0.0.1:${server.address().port}`))
