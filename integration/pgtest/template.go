package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
)

// template is a cluster that was made and never started: copies of it cost a
// tenth of initdb. It has a home of its own, as a server has.
type template struct {
	mu   sync.Mutex
	home *directory
}

// copyTo makes the cluster of s. The first call makes the template.
func (t *template) copyTo(s *Server) error {
	if err := t.make(s); err != nil {
		return err
	}
	// -a keeps the owner and the mode, on which the server insists.
	if out, err := exec.Command("cp", "-a", filepath.Join(t.home.path, dataName), s.path(dataName)).CombinedOutput(); err != nil {
		return fmt.Errorf("copy a cluster: %w\n%s", err, out)
	}
	return nil
}

func (t *template) make(s *Server) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.home != nil {
		return nil
	}
	home, err := newDirectory(filepath.Dir(s.home.path), s.account)
	if err != nil {
		return err
	}
	made := &Server{BinDir: s.BinDir, SocketDir: home.path, home: home, account: s.account}
	if err := made.initdb(""); err != nil {
		return errors.Join(err, home.remove())
	}
	t.home = home
	return nil
}

func (t *template) remove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.home == nil {
		return nil
	}
	defer func() { t.home = nil }()
	return t.home.remove()
}
