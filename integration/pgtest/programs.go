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

// debianBin is the pattern of the directories with the programs of each major version, on Debian.
const debianBin = "/usr/lib/postgresql/*/bin"

// oldestMajor is Debian 12's version of PostgreSQL, the oldest that the tests run with.
const oldestMajor = 15

// ErrNotInstalled reports that no PostgreSQL server was found on this machine.
var ErrNotInstalled = errors.New("PostgreSQL 15 or newer is not installed (Debian's package is called postgresql)")

// BinDir returns the directory of initdb, postgres, psql and pgbench: Debian's newest version, or the one on PATH.
// Without either it returns ErrNotInstalled.
func BinDir() (string, error) { return findBinDir(debianBin) }

func findBinDir(pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(pattern, "initdb"))
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	best, bestMajor := "", oldestMajor-1
	for _, path := range found {
		bin := filepath.Dir(path)
		// A directory whose name is no number counts as version 0.
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
	// The path is resolved, since PostgreSQL's other programs are beside the real initdb, not beside a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	return filepath.Dir(path), nil
}

// osAccount is the system account that runs the server.
type osAccount struct {
	uid, gid int
	switched bool // it is not the caller: files must be given to it
}

func serverAccount() (osAccount, error) {
	if os.Getuid() != 0 {
		return osAccount{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return osAccount{}, fmt.Errorf("root cannot run PostgreSQL itself and needs the account postgres: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return osAccount{}, fmt.Errorf("account postgres: %w", err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return osAccount{}, fmt.Errorf("account postgres: %w", err)
	}
	return osAccount{uid: uid, gid: gid, switched: true}, nil
}

// sysProcAttr returns the attributes that make a child run under the account.
func (a osAccount) sysProcAttr() *syscall.SysProcAttr {
	if !a.switched {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}

// giveFile makes the account the owner of a file that this process has made.
func (a osAccount) giveFile(path string) error {
	if !a.switched {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}
