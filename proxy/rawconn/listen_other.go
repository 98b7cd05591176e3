//go:build !linux

package rawconn

import "net"

// Listener is none on systems where it is not known what connections inherit.
type Listener struct{ net.Listener }

// Listen opens an ordinary listener.
func Listen(address string, _ net.KeepAliveConfig) (net.Listener, error) {
	return net.Listen("tcp", address)
}
