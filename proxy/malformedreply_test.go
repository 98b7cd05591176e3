package proxy_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

// The frames of a server in front of a malformed one are its client's, and the error comes behind them. Of a write
// that was answered nobody is in doubt.
func TestFramesInFrontOfAMalformedOne(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, bad := range map[string]string{
		"no end": "C\x00\x00\x00\x09SELEC", "too short": "C\x00\x00\x00\x04", "a length of no frame": "C\x00\x00\x00\x01", "a row": "T\x00\x00\x00\x05\x01",
	} {
		t.Run(name, func(t *testing.T) {
			good := []byte("C\x00\x00\x00\rSELECT 1\x00Z\x00\x00\x00\x05I") // the end of the second statement
			spoils := func(to, from net.Conn) {
				buf := make([]byte, 64<<10)
				for {
					n, err := from.Read(buf)
					if err != nil {
						return
					}
					b := bytes.Replace(buf[:n], good, []byte(bad), 1)
					if !bytes.Contains(b, []byte("answered")) {
						b = buf[:n]
					}
					if _, err := to.Write(b); err != nil {
						return
					}
				}
			}
			between := startListener(t, passEach(pg.addr, func(to, from net.Conn) { io.Copy(to, from) }, spoils))
			s := startSluice(t, pg, between.option, maxOpen(1))
			got := dialRaw(t, s.addr).play(t, "Q SELECT 'answered'; SELECT 2\n< Z\n")
			rest, want := got[strings.Index(got, "\n")+1:], []string{"answered", "SELECT 1", "C=08006"}
			for _, part := range want {
				_, behind, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("%q is not behind what is in front of it:\n%s", part, got)
				}
				rest = behind
			}
		})
	}
}
