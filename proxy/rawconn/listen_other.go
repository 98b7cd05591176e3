//go:build !linux || !(amd64 || arm64)

package rawconn

import "net"

// Listener is none on systems where it is not known what connections inherit.
type Listener struct{ net.Listener }

// Listen opens an ordinary listener.
func Listen(address string, _ net.KeepAliveConfig) (net.Listener, error) {
	return net.Listen("tcp", address)
}

// MostEnded is 0: a connection that is closed leaves no descriptor behind.
const MostEnded = 0
