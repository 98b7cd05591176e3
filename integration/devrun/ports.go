package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stateListen is TCP_LISTEN in the st column of /proc/net/tcp.
const stateListen = "0A"

// checkPort returns an error if a port cannot be used. The error names, in one line, the variable of make that changes
// the port.
func checkPort(port int, variable string) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		return l.Close()
	}
	remedy := fmt.Sprintf("choose another with make run %s=%d", variable, port+1)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		if holder := listeningProcess(port); holder != "" {
			return fmt.Errorf("port %d is taken by %s; %s", port, holder, remedy)
		}
		return fmt.Errorf("port %d is taken; %s", port, remedy)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %d needs root; choose another with make run %s=15432", port, variable)
	}
	return fmt.Errorf("port %d: %w; %s", port, err, remedy)
}

// listeningProcess returns the process that listens on a TCP port, as "postgres (pid 812)". It returns "" if there is
// none, or if this process may not see it.
func listeningProcess(port int) string {
	sockets := map[string]bool{} // link texts of the listening sockets
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if inode, listens := listeningInode(lines.Text(), port); listens {
				sockets["socket:["+inode+"]"] = true
			}
		}
		file.Close()
	}
	if len(sockets) == 0 {
		return ""
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // fails on a bad pattern only
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && sockets[target] {
			pid := strings.Split(link, "/")[2]
			return processName(pid) + " (pid " + pid + ")"
		}
	}
	return ""
}

// listeningInode parses one line of /proc/net/tcp, and returns the socket's inode if it listens on the port:
//
//	sl local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid timeout inode ...
func listeningInode(line string, port int) (inode string, listens bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != stateListen || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
		return "", false
	}
	return fields[9], true
}

func processName(pid string) string {
	name, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "a process"
	}
	return strings.TrimSpace(string(name))
}
