//go:build !linux || !(amd64 || arm64)

package rawconn

import "net"

// newRaw has no raw calls here.
func newRaw(net.Conn) Conn { return nil }
