//go:build !linux || !(amd64 || arm64)

package rawconn

import "net"

// Listener is an ordinary listener on systems where it is unknown whether connections inherit options.
type Listener struct{ net.Listener }

// Listen opens an ordinary listener. The keepalive times are ignored.
func Listen(address string, _ net.KeepAliveConfig) (net.Listener, error) {
	return net.Listen("tcp", address)
}

// MostEnded is 0, because a closed connection holds no descriptor on this system.
const MostEnded = 0
