//go:build !linux || !(amd64 || arm64)

package rawconn

import "net"

// Listener has no special behaviour on systems where inheritance of options is unknown.
type Listener struct{ net.Listener }

// Listen opens an ordinary listener.
func Listen(address string, _ net.KeepAliveConfig) (net.Listener, error) {
	return net.Listen("tcp", address)
}

// MostEnded is 0: a closed connection holds no descriptor.
const MostEnded = 0
