package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// The main goroutine must stay on the process's first thread, because the death signal that dieWithParent requests
// depends on that thread.
func init() { runtime.LockOSThread() }

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

// config holds the variables of `make run`.
type config struct {
	bin             harness.Bin
	port, adminPort int
	backend         string // dsql or postgres
	pairing         string
	scale           int
	check           bool // only look at the settings and the ports
}

func run(args []string, out io.Writer) error {
	c, err := parseArgs(args)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		port     int
		variable string
	}{{c.port, "PORT"}, {c.adminPort, "ADMIN_PORT"}} {
		if err := checkPort(p.port, p.variable); err != nil {
			return err
		}
	}
	if c.check {
		return nil
	}
	if err := dieWithParent(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A second signal has its usual effect, which kills this process, and the kernel then kills the children.
	context.AfterFunc(ctx, stop)

	s := &devStack{config: c, out: out}
	err = s.startAll(ctx)
	if err == nil {
		s.printInstructions()
		err = s.waitForEnd(ctx)
	}
	if ctx.Err() != nil {
		err = nil // asked to end, whatever that interrupted
		fmt.Fprintln(out, "\nstopping")
	}
	return errors.Join(err, s.stopAll())
}

func parseArgs(args []string) (config, error) {
	var c config
	flags := flag.NewFlagSet("devrun", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "directory of the built programs")
	flags.IntVar(&c.port, "port", 5432, "where Sluice listens")
	flags.IntVar(&c.adminPort, "admin-port", 9432, "where its metrics are")
	flags.StringVar(&c.backend, "backend", "dsql", "dsql: the stand-in; postgres: the plain server")
	flags.StringVar(&c.pairing, "pairing", "transaction", "transaction or session")
	flags.IntVar(&c.scale, "scale", 5, "size of pgbench's tables, in 100,000 rows")
	flags.BoolVar(&c.check, "check", false, "check settings and ports, start nothing")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	c.bin = harness.Bin(*bin)
	if c.backend != "dsql" && c.backend != "postgres" {
		return config{}, fmt.Errorf("BACKEND=%s: it is dsql (a local stand-in) or postgres", c.backend)
	}
	return c, nil
}

// dieWithParent makes the kernel send sig to this process when its parent, make, is killed. The signal depends on the
// life of the calling thread.
func dieWithParent(sig syscall.Signal) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(sig), 0); errno != 0 {
		return fmt.Errorf("prctl: %w", errno)
	}
	return nil
}
