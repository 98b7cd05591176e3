package startup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// readPacket reads one startup packet and returns it without its length field. The result is valid until the next read.
func (g *clientHandshake) readPacket() ([]byte, error) {
	if err := g.bufferAtLeast(4); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(g.buf[g.r:])
	if n < 4+4 || n > 4+maxStartupPacket {
		return nil, errStartupLength
	}
	return g.takeBytes(4, int(n))
}

// readAuthMessage reads the client's next authentication message. The result is valid until the next read.
func (g *clientHandshake) readAuthMessage() ([]byte, error) {
	if err := g.bufferAtLeast(wire.HeaderLen); err != nil {
		return nil, err
	}
	if typ := g.buf[g.r]; typ != msgSASLResponse {
		return nil, wire.ProtocolViolation("expected SASL response, got message type %d", typ)
	}
	n := binary.BigEndian.Uint32(g.buf[g.r+1:])
	if n < 4 || n > 4+maxSASLResponse {
		return nil, wire.ProtocolViolation("invalid message length")
	}
	return g.takeBytes(wire.HeaderLen, int(n)+1)
}

// takeBytes consumes total bytes of the client's input and returns all but the first skip of them.
func (g *clientHandshake) takeBytes(skip, total int) ([]byte, error) {
	if err := g.bufferAtLeast(total); err != nil {
		return nil, err
	}
	b := g.buf[g.r+skip : g.r+total]
	g.r += total
	return b, nil
}

// bufferAtLeast reads until n bytes are buffered. For a client that sends nothing at first, bufferAtLeast holds no
// buffer.
func (g *clientHandshake) bufferAtLeast(n int) error {
	for g.w-g.r < n {
		var got int
		var err error
		switch {
		case g.buf != nil:
			g.w = copy(g.buf, g.buf[g.r:g.w])
			g.r = 0
			got, err = g.conn.Read(g.buf[g.w:])
		case g.secured == nil:
			g.buf, got, err = g.raw.ReadWith(wire.GetBuffer, wire.PutBuffer)
		default:
			g.buf = wire.GetBuffer()
			continue
		}
		g.w += got
		switch {
		case got > 0:
		case err == io.EOF && g.w > g.r:
			return errStartupCut
		case err != nil:
			return err
		}
	}
	return nil
}

// writeAnswer answers a request for encryption. writeAnswer refuses a client that sent more bytes with the request,
// because Sluice could later take them for encrypted bytes (CVE-2021-23222).
func (g *clientHandshake) writeAnswer(answer byte) error {
	if g.w > g.r {
		return ErrPlainAfterTLS
	}
	_, err := g.conn.Write([]byte{answer})
	return err
}

// bufferMessage stores a message, which the next flush sends to the client.
func (g *clientHandshake) bufferMessage(m pgproto3.BackendMessage) error {
	out, err := m.Encode(g.out)
	if err != nil {
		return fmt.Errorf("encode %T: %w", m, err)
	}
	g.out = out
	return nil
}

// sendMessage sends the client a message, after those that bufferMessage has stored.
func (g *clientHandshake) sendMessage(m pgproto3.BackendMessage) error {
	if err := g.bufferMessage(m); err != nil {
		return err
	}
	return g.flush()
}

func (g *clientHandshake) flush() error {
	if len(g.out) == 0 {
		return nil
	}
	_, err := g.conn.Write(g.out)
	g.out = g.out[:0]
	return err
}

// sendRefusal sends the client the reason of a refusal, if possible and if the client did not leave.
func (g *clientHandshake) sendRefusal(cause error) {
	var told *wire.Error
	if !errors.As(cause, &told) || g.conn == nil {
		return
	}
	// Errors are ignored here, because the connection ends in any case.
	_ = g.raw.SetDeadline(time.Now().Add(RefusalTimeout))
	_, _ = g.conn.Write(told.Append(g.out))
	if g.secured != nil {
		_ = g.secured.CloseWrite()
	}
}

func (g *clientHandshake) releaseBuffer() {
	if g.buf != nil {
		wire.PutBuffer(g.buf)
		g.buf = nil
	}
}
