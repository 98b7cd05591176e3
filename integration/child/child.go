package child

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipeGrace bounds the wait for a pipe that a grandchild still holds open after the child has ended.
const pipeGrace = 2 * time.Second

// Process is a running child process. Its goroutine ends with the child.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}

	err error // written before exited is closed
}

// Start starts cmd in a separate process group, so that a Ctrl-C in the terminal reaches only the parent. If this
// process ends first, the kernel sends onDeath to the child. Start retains a Credential in cmd.SysProcAttr. The caller
// must not call cmd.Wait.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = onDeath
	cmd.WaitDelay = pipeGrace

	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.runAndReap(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *Process) runAndReap(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.exited)
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed once the child has ended and was reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err waits for the child's end and returns the result of exec.Cmd.Wait.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// ExitCode waits for the child's end and returns its exit code, -1 if a signal ended the child.
func (p *Process) ExitCode() int {
	<-p.exited
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends sig to the child alone. A child that has ended is not an error.
func (p *Process) Signal(sig syscall.Signal) {
	// The only possible error after Start is "already finished".
	_ = p.cmd.Process.Signal(sig)
}

// Freeze stops the child with SIGSTOP. It returns when every thread of the child has stopped, or the child has ended.
// The kill system call returns earlier, while threads may still answer.
func (p *Process) Freeze() {
	p.Signal(syscall.SIGSTOP)
	for unix.Waitid(unix.P_PID, p.PID(), nil, unix.WSTOPPED, nil) == unix.EINTR {
	}
}

// Thaw lets a frozen child go on.
func (p *Process) Thaw() { p.Signal(syscall.SIGCONT) }

// Stop sends sig to the child, and kills the child if it still runs after the duration grace. It returns when the
// child has been reaped. It reports whether the child ended without being killed.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) bool {
	p.Signal(sig)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	}
	p.Signal(syscall.SIGKILL)
	<-p.exited
	return false
}
