package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The runtime never ends a process's first thread: keep it for the main
// goroutine, so that parent's other goroutine gets one that can end.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		parent()
	}
	if os.Getenv("CHILD_TEST_BUSY") != "" {
		busy()
	}
	os.Exit(m.Run())
}

// parent is the body of a process that has a child and is then killed. Its
// calling thread has ended by then, which alone must not hurt the child.
func parent() {
	pid := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here
		p, err := Start(exec.Command("sleep", "600"), syscall.SIGKILL)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		pid <- p.PID()
	}()
	fmt.Println(<-pid)
	select {}
}

func TestChildDiesWithItsParentButNotWithAThread(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}

	time.Sleep(50 * time.Millisecond) // for the thread's end to show
	if !running(pid) {
		t.Fatal("the child ended although its parent lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(30 * time.Second); running(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child outlived its parent")
		}
	}
}

// running is false for a zombie too: an orphan may wait for init to reap it.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// busy is the body of a process with more threads at work than there are processors.
func busy() {
	runtime.GOMAXPROCS(8)
	for range 8 {
		go func() {
			for n := 0; ; n++ {
			}
		}()
	}
	select {}
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHILD_TEST_BUSY=1")
	p, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(syscall.SIGKILL, time.Minute)
	for range 100 {
		p.Freeze()
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, after, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(after, "T") {
				t.Fatalf("a thread of a frozen child: %s", stat)
			}
		}
		p.Thaw()
		time.Sleep(time.Millisecond)
	}
	p.Stop(syscall.SIGKILL, time.Minute)
	p.Freeze() // a child that has ended is not waited for
}

func TestStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		want         bool
		wantCode     int
	}{
		{"a child that obeys", "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done", time.Minute, true, 3},
		{"a child that ignores it", "trap '' TERM; echo up; while :; do sleep 0.01; done", 50 * time.Millisecond, false, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", tt.script)
			stdout, stdoutWriter, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdout.Close()
			cmd.Stdout = stdoutWriter
			p, err := Start(cmd, syscall.SIGKILL)
			if err != nil {
				t.Fatal(err)
			}
			stdoutWriter.Close()
			if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if got := p.Stop(syscall.SIGTERM, tt.grace); got != tt.want {
				t.Errorf("Stop = %v, want %v", got, tt.want)
			}
			if got := p.ExitCode(); got != tt.wantCode {
				t.Errorf("ExitCode = %d, want %d", got, tt.wantCode)
			}
			p.Stop(syscall.SIGTERM, time.Minute) // a second time does no harm
		})
	}
}

func TestStartReportsAMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := Start(exec.Command("/no/such/program"), syscall.SIGKILL); err == nil {
		t.Error("no error")
	}
}

func TestChildHasItsOwnProcessGroup(t *testing.T) {
	t.Parallel()
	p, err := Start(exec.Command("sleep", "600"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(syscall.SIGKILL, time.Minute)
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		t.Errorf("process group %d, %v, want %d", group, err, p.PID())
	}
}
