package dynalite

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestStopsWithItsTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("running", func(t *testing.T) {
		url = Start(t).URL
		if err := ask(url); err != nil {
			t.Error(err)
		}
	})
	if err := ask(url); err == nil {
		t.Errorf("%s still answers", url)
	}
}

// A client may go in the middle of its request: the server goes on.
func TestOutlivesAClientThatGoes(t *testing.T) {
	t.Parallel()
	s := Start(t)
	address := strings.TrimPrefix(s.URL, "http://")
	for _, body := range []string{"", "{"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Length: 2\r\n\r\n" + body)); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c) // until the server has closed it too
		c.Close()
		if err := ask(s.URL); err != nil {
			t.Fatalf("behind a client that went when it had sent the body %q: %v", body, err)
		}
	}
}

func ask(url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err == nil {
		answer.Body.Close()
	}
	return err
}
