package rawconn

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

// echoAddress makes this test binary, started as a child, an echoing peer: the
// layers differ only where the other end is another process.
const echoAddress = "RAWCONN_TEST_ECHO"

func TestMain(m *testing.M) {
	if address := os.Getenv(echoAddress); address != "" {
		echo(address)
		return
	}
	os.Exit(m.Run())
}

func echo(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	c, buf := Wrap(conn), make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		c.Write(buf[:n])
	}
}

// benched are the layers, and what they replace.
var benched = []struct {
	name string
	wrap func(net.Conn) net.Conn
}{
	{"net", func(c net.Conn) net.Conn { return c }},
	{"plain", func(c net.Conn) net.Conn { return WrapPlain(c) }},
	{"raw", func(c net.Conn) net.Conn { return Wrap(c) }},
}

// BenchmarkRoundTrip measures 200 bytes to another process and back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, layer := range benched {
		b.Run(layer.name, func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer ln.Close()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), echoAddress+"="+ln.Addr().String())
			if err := child.Start(); err != nil {
				b.Fatal(err)
			}
			defer child.Wait()
			conn, err := ln.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			c, buf := layer.wrap(conn), make([]byte, 200)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBulk measures one way, 32 KiB a call.
func BenchmarkBulk(b *testing.B) {
	for _, layer := range benched {
		b.Run(layer.name, func(b *testing.B) {
			near, far := socketPair(b, "tcp")
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, buf := layer.wrap(far), make([]byte, 32<<10)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
				}
			}()
			c, buf := layer.wrap(near), make([]byte, 32<<10)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
			<-done
		})
	}
}
