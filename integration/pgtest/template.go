package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
)

// clusterTemplate is a database cluster that was never started. Copying it costs a tenth of initdb. It has its own
// directory, like a server.
type clusterTemplate struct {
	mu   sync.Mutex
	home *serverHome
}

// copyTo makes the database cluster of s by a copy. The first call makes the template.
func (t *clusterTemplate) copyTo(s *Server) error {
	if err := t.makeCluster(s); err != nil {
		return err
	}
	// Option -a keeps the owner and the mode, which the server checks.
	if out, err := exec.Command("cp", "-a", filepath.Join(t.home.path, dataName), s.homePath(dataName)).CombinedOutput(); err != nil {
		return fmt.Errorf("copy a cluster: %w\n%s", err, out)
	}
	return nil
}

func (t *clusterTemplate) makeCluster(s *Server) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.home != nil {
		return nil
	}
	home, err := newServerHome(filepath.Dir(s.home.path), s.account)
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

func (t *clusterTemplate) remove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.home == nil {
		return nil
	}
	defer func() { t.home = nil }()
	return t.home.remove()
}
