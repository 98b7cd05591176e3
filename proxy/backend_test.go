package proxy

import (
	"io"
	"net"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// Where something of ours would commit what a client has sent, the backend is given up.
func TestExchangeInAGroupIsRefused(t *testing.T) {
	for status, open := range map[byte]bool{'I': true, 'T': false, 'E': false} {
		here, server := net.Pipe()
		go io.Copy(io.Discard, server)
		s := &session{link: link{pairing: pairing{b: &backend{conn: &reservoir.Conn{Net: here}}, t: &turn{server: serverProgress{outcome: outcome.FromBlock(block.FromStatus(status))}}}}}
		s.t.addToBatch(wire.FrameFlush)
		if err := s.flushToBackend(); err != nil {
			t.Fatal(err)
		}
		if s.b.groupOpen != open {
			t.Errorf("behind frames of a client at %c: open %v, want %v", status, s.b.groupOpen, open)
		}
		here.Close()
		if _, err := s.b.exchange(wire.FrameSync); (err == errOpenGroup) != open {
			t.Errorf("an exchange behind frames of a client at %c: %v", status, err)
		}
		server.Close()
	}
}
