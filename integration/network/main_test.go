package network

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// worlds is how many tests run at a time: mostly they wait.
const worlds = "6"

// inside marks the process that runs in the namespace.
const inside = "SLUICE_TEST_NETWORK_NAMESPACE"

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the namespace has no loopback interface: %v: %s", err, out)
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", worlds); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Main(m))
}

// enter runs this very test binary again in a network namespace, and returns its exit
// code. Whoever is not root enters a user namespace as well, under the same number.
func enter() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{capNetAdmin}
	}
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.ExitCode()
	}
	fmt.Fprintf(os.Stderr, "no network namespace: %v. Run the tests as root, or allow user namespaces "+
		"(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=10000)\n", err)
	return 1
}

// capNetAdmin is CAP_NET_ADMIN: the right to change a network namespace.
const capNetAdmin = 12
