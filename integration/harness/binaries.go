package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// programs are what Binaries builds, as packages below cmd.
var programs = []string{"sluice", "dsqlsim"}

// Bin is a directory that holds the built programs.
type Bin string

func (b Bin) path(program string) string { return filepath.Join(string(b), program) }

// OverlayVariable names the environment variable that has Binaries build the programs with the
// go command's flag -overlay, whose file it holds. The programs lie beside that file.
const OverlayVariable = "SLUICE_TEST_OVERLAY"

// build makes the programs, once for this process and from the source as it is
// now: a test must never meet yesterday's binary. When nothing has changed the
// go command finds that the programs of the last time are those of today, and
// links nothing.
var build = sync.OnceValues(func() (Bin, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	overlay := os.Getenv(OverlayVariable)
	if overlay != "" { // beside the overlay: nobody else must meet these programs
		bin := filepath.Join(filepath.Dir(overlay), "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			return "", err
		}
		return Bin(bin), goBuild(root, bin, programs, "-overlay", overlay)
	}
	bin := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	// Test binaries of several packages do this, one after the other, so that only
	// the first links. Each program is moved into place whole, and a running one
	// keeps its own file.
	staging, err := os.MkdirTemp(bin, "staging-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(staging)
	lock, err := lockFile(filepath.Join(bin, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	for _, program := range programs {
		// The go command replaces a program by a new file: it does not write into this one.
		if err := os.Link(filepath.Join(bin, program), filepath.Join(staging, program)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if err := goBuild(root, staging, programs); err != nil {
		return "", err
	}
	for _, program := range programs {
		if err := os.Rename(filepath.Join(staging, program), filepath.Join(bin, program)); err != nil {
			return "", err
		}
	}
	return Bin(bin), nil
})

// lockFile waits until nobody else has the file locked. Its lock ends with the
// file that is returned, or with this process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// goBuild builds programs into a directory that exists, with further flags.
func goBuild(root, dir string, programs []string, flags ...string) error {
	args := append([]string{"build", "-o", dir + string(filepath.Separator)}, flags...)
	for _, program := range programs {
		args = append(args, "./cmd/"+program)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// module is the one that the programs belong to.
const module = "github.com/sluice-proxy/sluice"

// moduleRoot is the nearest directory upwards whose go.mod is the module's: a
// test may be in a module of its own below it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod of " + module + " in this directory or above it")
		}
		dir = parent
	}
}
