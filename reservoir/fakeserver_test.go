package reservoir

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/integration/certs"
)

// fakeServer speaks just enough of the startup to see what a dial sends.
type fakeServer struct {
	certificate *tls.Certificate // nil: refuses TLS
	cleartext   bool             // asks for a password
	refuse      []byte           // an ErrorResponse to answer the startup with
	silent      bool             // accepts and says nothing
	breakOff    bool             // closes in the middle of the startup

	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	accepted int
	sni      []string
	startups []map[string]string
	password []string
	cancels  [][]byte // CancelRequests, whole
}

func (f *fakeServer) start(t *testing.T) *fakeServer {
	t.Helper()
	var err error
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	f.running.Go(func() {
		for {
			conn, err := f.listener.Accept()
			if err != nil {
				return
			}
			f.note(func() { f.accepted++ })
			f.running.Go(func() {
				defer conn.Close()
				f.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		f.listener.Close()
		f.running.Wait()
	})
	return f
}

func (f *fakeServer) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

func (f *fakeServer) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// serve ends at the first thing that is not as it should be; the dial notices.
func (f *fakeServer) serve(conn net.Conn) {
	if f.silent {
		io.Copy(io.Discard, conn)
		return
	}
	packet := readPacket(conn)
	if len(packet) == 4 && binary.BigEndian.Uint32(packet) == sslRequest {
		var certificate *tls.Certificate
		f.note(func() { certificate = f.certificate })
		if certificate == nil {
			conn.Write([]byte("N"))
		} else {
			conn.Write([]byte("S"))
			secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*certificate}})
			if secured.Handshake() != nil {
				return
			}
			f.note(func() { f.sni = append(f.sni, secured.ConnectionState().ServerName) })
			conn = secured
		}
		packet = readPacket(conn)
	}
	if len(packet) < 4 {
		return
	}
	if binary.BigEndian.Uint32(packet) == cancelRequest {
		f.note(func() { f.cancels = append(f.cancels, packet) })
		return
	}
	parts := bytes.Split(bytes.TrimRight(packet[4:], "\x00"), []byte{0})
	startup := map[string]string{"protocol": string(packet[:4])}
	for i := 0; i+1 < len(parts); i += 2 {
		startup[string(parts[i])] = string(parts[i+1])
	}
	f.note(func() { f.startups = append(f.startups, startup) })
	if f.refuse != nil {
		conn.Write(f.refuse)
		return
	}
	if f.cleartext {
		conn.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3})
		var kind [1]byte
		io.ReadFull(conn, kind[:])
		password := readPacket(conn)
		f.note(func() { f.password = append(f.password, string(bytes.TrimRight(password, "\x00"))) })
	}
	conn.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 0})
	conn.Write(frame('S', []byte("server_version\x0016.15\x00")))
	if f.breakOff {
		return
	}
	conn.Write(frame('K', []byte{0, 0, 0, 42, 9, 8, 7, 6}))
	conn.Write(frame('Z', []byte("I")))
	io.Copy(io.Discard, conn)
}

// readPacket reads a length and what it announces, without the length.
func readPacket(r io.Reader) []byte {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:])-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil
	}
	return body
}

func frame(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
}

func errorResponse(code, message, hint string) []byte {
	return frame('E', []byte("SFATAL\x00VFATAL\x00C"+code+"\x00M"+message+"\x00H"+hint+"\x00\x00"))
}

// newCertificate makes a certificate that is its own authority, and a file of it.
func newCertificate(t *testing.T, name string) (*tls.Certificate, string) {
	t.Helper()
	cert := certs.SelfSigned("test", name)
	file, _ := certs.WriteTestFiles(t, cert)
	return &cert, file
}
