package dynalite

import (
	"net/http"
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

func ask(url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err == nil {
		answer.Body.Close()
	}
	return err
}
