package dsqlsim

import (
	"net"
	"sync"
)

// link holds the two connections of a session, which end together.
type link struct {
	client   net.Conn // the TCP connection below the TLS
	upstream net.Conn
	done     chan struct{} // closed by cut
	once     sync.Once
}

// cut closes both connections of the session. Any goroutine may call it.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.upstream.Close()
	})
}
