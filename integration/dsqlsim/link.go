package dsqlsim

import (
	"net"
	"sync"
)

// connPair holds the two connections of a session, which end together.
type connPair struct {
	client   net.Conn // the TCP connection below the TLS
	upstream net.Conn
	done     chan struct{} // closed by cut
	once     sync.Once
}

// closeBoth closes both connections of the session. Any goroutine may call it.
func (l *connPair) closeBoth() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.upstream.Close()
	})
}
