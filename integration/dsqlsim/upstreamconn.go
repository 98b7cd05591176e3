package dsqlsim

import (
	"bufio"
	"fmt"
	"io"
	"net"
)

const upstreamBuffer = 32 << 10

// upstreamConn carries a session's frames to and from PostgreSQL. All its errors wrap errUpstream.
type upstreamConn struct {
	in  *bufio.Reader
	out *bufio.Writer
}

func newUpstreamConn(conn net.Conn) upstreamConn {
	return upstreamConn{bufio.NewReaderSize(conn, upstreamBuffer), bufio.NewWriterSize(conn, upstreamBuffer)}
}

// peekHeader returns type and length of the next frame without reading the frame.
func (c *upstreamConn) peekHeader() (kind byte, total int, err error) {
	header, err := c.in.Peek(frameHeader)
	if err != nil {
		return 0, 0, upstreamError(err)
	}
	if _, err := bodyLength(header); err != nil {
		return 0, 0, upstreamError(err)
	}
	return header[0], frameLength(header), nil
}

// readBody reads a frame of total bytes, header included, and returns its body.
func (c *upstreamConn) readBody(total int) ([]byte, error) {
	b := make([]byte, total)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return nil, upstreamError(err)
	}
	return b[frameHeader:], nil
}

// peekFrame returns the next frame without reading it, if the frame fits the buffer.
func (c *upstreamConn) peekFrame(total int) (packet []byte, ok bool, err error) {
	if total > c.in.Size() {
		return nil, false, nil
	}
	if packet, err = c.in.Peek(total); err != nil {
		return nil, false, upstreamError(err)
	}
	return packet, true, nil
}

// discardFrame skips a frame of total bytes.
func (c *upstreamConn) discardFrame(total int) error {
	if _, err := c.in.Discard(total); err != nil {
		return upstreamError(err)
	}
	return nil
}

func (c *upstreamConn) write(kind byte, body []byte) error {
	if err := writeFrame(c.out, kind, body); err != nil {
		return upstreamError(err)
	}
	return nil
}

// flush sends the buffered frames.
func (c *upstreamConn) flush() error {
	if err := c.out.Flush(); err != nil {
		return upstreamError(err)
	}
	return nil
}

func upstreamError(err error) error { return fmt.Errorf("%w: %w", errUpstream, err) }
