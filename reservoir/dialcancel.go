package reservoir

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// These codes take the place of the protocol version in a startup message (PostgreSQL, "Message Formats").
const (
	sslRequest    = 80877103
	cancelRequest = 80877102
)

// canceler sends a CancelRequest for the statement of one backend.
type canceler struct {
	address net.Addr    // the dialled server: its name may have several addresses
	tls     *tls.Config // as of the dial; nil without TLS
	pid     uint32
	secret  []byte
}

// send asks the server to cancel the backend's statement. send returns nil when the server has closed the request's
// connection, which the server does after the cancel.
func (c canceler) send(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, c.address.Network(), c.address.String())
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	if err := c.exchange(ctx, conn); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

func (c canceler) exchange(ctx context.Context, conn net.Conn) error {
	if c.tls != nil {
		secured, err := startTLS(ctx, conn, c.tls)
		if err != nil {
			return err
		}
		conn = secured
	}
	// The secret of BackendKeyData has 4 bytes before protocol 3.2, and up to 256 since.
	request := make([]byte, 0, 12+len(c.secret))
	request = binary.BigEndian.AppendUint32(request, uint32(12+len(c.secret)))
	request = binary.BigEndian.AppendUint32(request, cancelRequest)
	request = binary.BigEndian.AppendUint32(request, c.pid)
	request = append(request, c.secret...)
	if _, err := conn.Write(request); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return err
	}
	return nil // closed, with an error or without
}

// startTLS asks the server for TLS on conn and performs the TLS handshake.
func startTLS(ctx context.Context, conn net.Conn, cfg *tls.Config) (*tls.Conn, error) {
	request := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, sslRequest)
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, err
	}
	if answer[0] != 'S' {
		return nil, errors.New("the server refused TLS")
	}
	secured := tls.Client(conn, cfg)
	return secured, secured.HandshakeContext(ctx)
}
