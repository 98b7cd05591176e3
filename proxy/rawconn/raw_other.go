//go:build !linux || !(amd64 || arm64)

package rawconn

import "net"

// newRaw returns nil, because raw calls are untested on this system.
func newRaw(net.Conn) Conn { return nil }
