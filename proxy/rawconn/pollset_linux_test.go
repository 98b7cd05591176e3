//go:build linux && (amd64 || arm64)

package rawconn

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A set names a socket once, whatever more comes, until it is added again; one that has been removed,
// or was closed, not at all.
func TestPollSet(t *testing.T) {
	set, err := newPollSet()
	if err != nil {
		t.Fatal(err)
	}
	defer set.close()
	near, far := socketPair(t, "tcp")
	socket := socketOf(Wrap(near))
	keys := make([]uint64, batch)
	names := func(what string, want ...uint64) {
		t.Helper()
		set.file.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := set.wait(keys)
		if n != len(want) || n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) || n == 1 && keys[0] != want[0] {
			t.Fatalf("%s: %x, %v; want %x", what, keys[:n], err, want)
		}
	}
	const one, two = 0xfedcba9876543210, 1<<63 | 1
	add := func(key uint64) {
		t.Helper()
		if !set.add(socket, key) {
			t.Fatal("it is not added")
		}
	}
	add(one)
	names("nothing has come")
	far.Write([]byte("x"))
	names("a byte", one)
	names("the same byte")
	far.Write([]byte("x"))
	names("one more")
	if set.add(socket, two) {
		t.Error("added twice")
	}
	set.remove(socket)
	add(two)
	names("added again", two)
	set.remove(socket)
	far.Close()
	names("removed")
	add(one)
	near.Close()
	names("closed")
	if set.add(socket, one) {
		t.Error("a closed socket is added")
	}
}

// Nobody is parked behind the end, in a set of somebody else's that has got the descriptor.
func TestParkingBehindClose(t *testing.T) {
	p := newParking(t)
	near, _ := socketPair(t, "tcp")
	who := newParker(Wrap(near))
	p.Close()
	for range 100 {
		other, err := newPollSet()
		if err != nil {
			t.Fatal(err)
		}
		defer other.close()
		if other.fd == p.set.fd {
			break
		}
	}
	if p.Park(who.conn, who, &who.spot) {
		t.Error("one is parked")
	}
}
