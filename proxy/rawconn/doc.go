// Package rawconn is the thin layer between a session and its sockets.
//
// Read and Write of net.Conn use syscall.Syscall, which notifies the scheduler that the goroutine may block. A proxy
// makes two calls of a microsecond each way per query, and these notifications cost up to 40 % of its throughput. So
// Wrap calls the kernel by RawSyscall from within the runtime's poller (syscall.RawConn). The goroutine still parks
// when a socket is not ready, and deadlines and Close still wake it.
//
// Raw calls are safe for three reasons:
//
//   - No call blocks: each has MSG_DONTWAIT.
//   - No call is long, because its thread cannot run another goroutine meanwhile: a call moves at
//     most 64 KiB.
//   - A goroutine that never parks would starve others of its thread, so it yields after 256 KiB
//     in one direction.
//
// Wrap uses WrapPlain, which makes ordinary calls, for connections that are not TCP or Unix streams. WrapPlain is also
// used on systems where the raw calls are untested. In race builds both kinds of Conn inform the race detector about
// the kernel's work.
//
// A Conn allocates nothing after its creation.
//
// A ParkedConns waits for many idle connections without a goroutine for each. On systems where the raw calls are
// untested, a ParkedConns parks no connection.
package rawconn
