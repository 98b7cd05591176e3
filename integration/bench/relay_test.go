package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// carried runs f on both ends of a relay's connection.
func carried(t *testing.T, f func(r *delayRelay, client, server net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		r := &delayRelay{delay: oneWay}
		client, clientEnd := net.Pipe()
		serverEnd, server := net.Pipe()
		ended := make(chan struct{})
		go func() {
			r.relayBothWays(clientEnd, serverEnd)
			close(ended)
		}()
		f(r, client, server)
		client.Close()
		<-ended
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the server's end is open after the client's: %v", err)
		}
	})
}

func TestRelayDelaysAndCountsRoundTrips(t *testing.T) {
	t.Parallel()
	carried(t, func(r *delayRelay, client, server net.Conn) {
		go func() { // answers each three bytes
			buffer := make([]byte, 3)
			for {
				if _, err := io.ReadFull(server, buffer); err != nil {
					return
				}
				if _, err := server.Write(buffer); err != nil {
					return
				}
			}
		}()
		const trips = 5
		began := time.Now()
		for range trips {
			for _, piece := range []string{"a", "b", "c"} { // still one round trip
				if _, err := client.Write([]byte(piece)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.ReadFull(client, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := time.Since(began), trips*2*oneWay; got != want {
			t.Errorf("%d round trips have taken %v, want %v", trips, got, want)
		}
		if got := r.trips.Load(); got != trips {
			t.Errorf("counted %d round trips, want %d", got, trips)
		}
	})
}

// Bytes are held back, their sender is not: all arrive one delay after the first.
func TestRelayDoesNotLimitBandwidth(t *testing.T) {
	t.Parallel()
	carried(t, func(r *delayRelay, client, server net.Conn) {
		const size = 8 << 20
		sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		go server.Write(sent)
		began := time.Now()
		got := make([]byte, size)
		if _, err := io.ReadFull(client, got); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != oneWay {
			t.Errorf("%d bytes have taken %v, want %v", size, took, oneWay)
		}
		if !bytes.Equal(got, sent) {
			t.Error("other bytes than were sent")
		}
		if trips := r.trips.Load(); trips != 0 {
			t.Errorf("counted %d round trips of a client that has sent nothing", trips)
		}
	})
}

// A client that goes while more is under way than the relay will hold leaves
// nothing behind: the bubble would report it.
func TestRelayEndsInTheMiddleOfAStream(t *testing.T) {
	t.Parallel()
	carried(t, func(_ *delayRelay, client, server net.Conn) {
		go func() {
			for {
				if _, err := server.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		}()
		if _, err := client.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the queue is full
	})
}

func TestRelayEnds(t *testing.T) {
	t.Parallel()
	target, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	r, err := newDelayRelay(target.Addr().String(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		r.serve()
		close(served)
	}()
	client, err := net.Dial("tcp", r.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r.close() // with a connection open
	<-served
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the client's connection is still open")
	}
}
