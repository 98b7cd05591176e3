// Package rawconn is the thin layer between a session and its sockets.
//
// net.Conn's Read and Write go through syscall.Syscall, which tells the
// scheduler that a goroutine may block; for a proxy, which makes two calls of a
// microsecond each way per query, that costs up to 40 % of its throughput. Wrap
// therefore calls the kernel with RawSyscall from within the runtime's poller
// (syscall.RawConn): the goroutine still parks when a socket is not ready, and
// deadlines and Close still wake it.
//
// What makes that safe:
//
//   - No call may block: each carries MSG_DONTWAIT.
//   - No call may be long, since its thread cannot be given to another goroutine
//     meanwhile: at most 64 KiB are moved by one.
//   - A goroutine that never parks would starve the others of its thread: after
//     256 KiB moved one way without parking it yields by itself.
//
// Wrap falls back to Plain, the same methods by ordinary calls, for a connection
// that is no TCP or Unix stream and on systems where the raw calls are untested.
// In race builds both layers tell the race detector what the kernel did.
//
// A Conn allocates nothing after it was made.
//
// A Parking waits for many connections of which nothing is expected for long, without a goroutine
// for each; where the raw calls are untested it parks nobody.
package rawconn
