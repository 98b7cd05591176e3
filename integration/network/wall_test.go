package network

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A wall drops packets from and to a server's port, without a word to either side.
type wall struct {
	tb   testing.TB
	port int
}

// newWall lets everything pass, until told otherwise; behind the test as well.
func newWall(tb testing.TB, port int) *wall {
	w := &wall{tb, port}
	w.nft("add table inet " + w.name() + "\nadd chain inet " + w.name() + " in { type filter hook input priority 0; }")
	tb.Cleanup(func() { w.nft("delete table inet " + w.name()) })
	return w
}

func (w *wall) name() string { return "wall" + strconv.Itoa(w.port) }

func (w *wall) nft(script string) {
	w.tb.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.tb.Fatalf("nft: %v: %s", err, out)
	}
}

func (w *wall) rule(match string) { w.nft("add rule inet " + w.name() + " in " + match + " drop") }

// close drops everything from and to the server, new connections included.
func (w *wall) close() { w.silence(); w.deafen() }

// deafen drops what goes to the server, silence what comes from it.
func (w *wall) deafen()  { w.rule(fmt.Sprintf("tcp dport %d", w.port)) }
func (w *wall) silence() { w.rule(fmt.Sprintf("tcp sport %d", w.port)) }

// swallow drops what belongs to connections that exist. New ones work.
func (w *wall) swallow() {
	ports := w.flows()
	if len(ports) == 0 {
		w.tb.Fatal("there is no connection to swallow")
	}
	set := strings.Join(ports, ", ")
	w.rule(fmt.Sprintf("tcp dport %d tcp sport { %s }", w.port, set))
	w.rule(fmt.Sprintf("tcp sport %d tcp dport { %s }", w.port, set))
}

// open lets everything pass again.
func (w *wall) open() { w.nft("flush chain inet " + w.name() + " in") }

// flows are the clients' ports of the connections to the server that are established.
func (w *wall) flows() (ports []string) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		w.tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "01" || !strings.HasSuffix(f[2], fmt.Sprintf(":%04X", w.port)) {
			continue
		}
		_, port, _ := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			w.tb.Fatal(err)
		}
		ports = append(ports, strconv.FormatUint(n, 10))
	}
	return ports
}
