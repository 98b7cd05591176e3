//go:build !linux || !(amd64 || arm64)

package rawconn

import "net"

// newRaw returns nil: there are no raw calls here.
func newRaw(net.Conn) Conn { return nil }
