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

// builtPrograms are the programs that Binaries builds, as packages below cmd.
var builtPrograms = []string{"sluice", "dsqlsim"}

// Bin is a directory with the built programs.
type Bin string

func (b Bin) path(program string) string { return filepath.Join(string(b), program) }

// OverlayVariable is the name of an environment variable with the file for the go command's flag -overlay. If it is
// set, Binaries builds the programs with that overlay, into the file's directory.
const OverlayVariable = "SLUICE_TEST_OVERLAY"

// buildPrograms builds the programs from the current source, once in this process, so that a test never runs an
// outdated binary. If the source is unchanged, the go command's cache avoids the work.
var buildPrograms = sync.OnceValues(func() (Bin, error) {
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
		return Bin(bin), goBuild(root, bin, builtPrograms, "-overlay", overlay)
	}
	bin := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	// Test binaries of several packages build one after the other, so that only the first one links. Each program is moved
	// into place as a whole, and a running program keeps the old file.
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
	for _, program := range builtPrograms {
		// The go command replaces a program by a new file, so the link's target remains unchanged.
		if err := os.Link(filepath.Join(bin, program), filepath.Join(staging, program)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if err := goBuild(root, staging, builtPrograms); err != nil {
		return "", err
	}
	for _, program := range builtPrograms {
		if err := os.Rename(filepath.Join(staging, program), filepath.Join(bin, program)); err != nil {
			return "", err
		}
	}
	return Bin(bin), nil
})

// lockFile waits until it holds an exclusive lock on the file. The lock ends when the caller closes the returned file,
// or with this process.
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

// goBuild builds programs into an existing directory, with additional flags.
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

// module is the Go module of the programs.
const module = "github.com/sluice-proxy/sluice"

// moduleRoot returns the nearest parent directory whose go.mod is that of the programs' module. A test may run in
// another module below that directory.
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
