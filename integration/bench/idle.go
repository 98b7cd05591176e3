package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	idIdle = "idle"

	// settle is the time after the startups in which a proxy gives back the buffers of startups.
	settle = 3 * time.Second
	// startupLimit bounds the time that one client's startup may take.
	startupLimit = 10 * time.Second
	// frameLimit bounds a message of a server during startup, and is far above any real message's length.
	frameLimit = 64 << 10
)

// measureIdle measures the memory that a new proxy needs for clients that are connected and idle.
func (b *bench) measureIdle(ctx context.Context, r *report) error {
	if !b.isSelected(idIdle) {
		return nil
	}
	taken := map[string][]float64{}
	for round := range b.rounds {
		measures := map[string]func(context.Context) (float64, error){pgBouncer: b.measureIdlePooler, sluice: b.measureIdleSluice}
		names := []string{pgBouncer, sluice}
		said := make(map[string]string)
		for _, i := range rand.Perm(len(names)) {
			name := names[i]
			kib, err := measures[name](ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.recordFailure(idIdle, name, err)
				kib = missingValue
			}
			taken[name] = append(taken[name], kib)
			said[name] = fmt.Sprintf("%s %.2f KiB", name, kib)
		}
		b.printProgress(round, "memory of an idle client", said[pgBouncer], said[sluice])
	}
	r.Idle = &idleResult{
		Clients:   idleClients,
		PgBouncer: summarize(taken[pgBouncer]),
		Sluice:    summarize(taken[sluice]),
	}
	return nil
}

func (b *bench) measureIdlePooler(ctx context.Context) (float64, error) {
	p, err := b.rig.launchPooler(ctx, "transaction", poolSize)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	return b.rig.residentKiBPerClient(ctx, p.PID(), p.port)
}

func (b *bench) measureIdleSluice(ctx context.Context) (float64, error) {
	s, err := b.rig.launchSluice(ctx, b.rig.postgres.Port, nil)
	if err != nil {
		return 0, err
	}
	defer s.Stop(syscall.SIGTERM, stopGrace)
	return b.rig.residentKiBPerClient(ctx, s.PID(), s.Port)
}

// residentKiBPerClient connects the idle clients to a proxy. It returns by how many KiB each client has made the proxy
// grow.
func (r *benchServers) residentKiBPerClient(ctx context.Context, pid, port int) (float64, error) {
	// The first client is not counted, since it pays for memory that all later ones share.
	first, err := connectIdle(ctx, port, r.postgres.User)
	if err != nil {
		return 0, err
	}
	defer first.Close()
	before, err := settledResidentKiB(ctx, pid)
	if err != nil {
		return 0, err
	}
	for i := range idleClients {
		conn, err := connectIdle(ctx, port, r.postgres.User)
		if err != nil {
			return 0, fmt.Errorf("client %d: %w", i, err)
		}
		defer conn.Close()
	}
	after, err := settledResidentKiB(ctx, pid)
	return (after - before) / idleClients, err
}

func settledResidentKiB(ctx context.Context, pid int) (float64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settle):
	}
	return residentKiB(pid)
}

// connectIdle opens a connection and makes the startup. It uses no driver, since a driver would have its own buffers
// for each connection.
func connectIdle(ctx context.Context, port int, role string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: startupLimit}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	if err := performStartup(conn, role); err != nil {
		conn.Close()
		return nil, fmt.Errorf("startup: %w", err)
	}
	return conn, nil
}

// performStartup starts a session on conn as role, with protocol 3.0, and reads up to ReadyForQuery. A server's
// request for a password is an error.
func performStartup(conn net.Conn, role string) error {
	if err := conn.SetDeadline(time.Now().Add(startupLimit)); err != nil {
		return err
	}
	const protocol = 3 << 16
	parameters := "user\x00" + role + "\x00database\x00" + database + "\x00\x00"
	message := binary.BigEndian.AppendUint32(nil, uint32(8+len(parameters)))
	message = binary.BigEndian.AppendUint32(message, protocol)
	if _, err := conn.Write(append(message, parameters...)); err != nil {
		return err
	}
	for {
		kind, body, err := readMessage(conn)
		if err != nil {
			return err
		}
		switch {
		case kind == 'Z':
			return conn.SetDeadline(time.Time{})
		case kind == 'E':
			return fmt.Errorf("refused: %q", body)
		case kind == 'R' && binary.BigEndian.Uint32(append(body, 0, 0, 0, 0)) != 0:
			return errors.New("a password is asked for")
		}
	}
}

func readMessage(conn io.Reader) (kind byte, body []byte, err error) {
	var head [5]byte // type, then a length that counts itself
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > frameLimit {
		return 0, nil, fmt.Errorf("a message of %d bytes", length)
	}
	body = make([]byte, length-4)
	_, err = io.ReadFull(conn, body)
	return head[0], body, err
}
