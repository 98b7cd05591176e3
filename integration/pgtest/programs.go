package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// debianBin is where Debian keeps each major version's programs.
const debianBin = "/usr/lib/postgresql/*/bin"

// oldestMajor is Debian 12's version, the oldest that the tests are run with.
const oldestMajor = 15

// ErrNotInstalled says that no PostgreSQL server was found on this machine.
var ErrNotInstalled = errors.New("PostgreSQL 15 or newer is not installed (Debian's package is called postgresql)")

// BinDir finds the directory of initdb, postgres, psql and pgbench: Debian's
// newest version, else the one on PATH, else ErrNotInstalled.
func BinDir() (string, error) { return binDir(debianBin) }

func binDir(pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(pattern, "initdb"))
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	best, bestMajor := "", oldestMajor-1
	for _, path := range found {
		bin := filepath.Dir(path)
		// A directory that is no number (9.6, or not Debian's) counts as version 0.
		major, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err == nil && major > bestMajor {
			best, bestMajor = bin, major
		}
	}
	if best != "" {
		return best, nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", ErrNotInstalled
	}
	// The server's siblings lie beside the real file, not beside a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	return filepath.Dir(path), nil
}

// account is who runs the server.
type account struct {
	uid, gid int
	switched bool // it is not the caller: files must be given to it
}

func serverAccount() (account, error) {
	if os.Getuid() != 0 {
		return account{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("root cannot run PostgreSQL itself and needs the account postgres: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return account{}, fmt.Errorf("account postgres: %w", err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return account{}, fmt.Errorf("account postgres: %w", err)
	}
	return account{uid: uid, gid: gid, switched: true}, nil
}

// sysProcAttr makes a child run under the account.
func (a account) sysProcAttr() *syscall.SysProcAttr {
	if !a.switched {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}

// give hands a file that we made over to the account.
func (a account) give(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}
