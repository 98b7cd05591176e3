package daemon

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tcpListen is the state of a listening socket in /proc/net/tcp (the kernel's TCP_LISTEN).
const tcpListen = "0A"

// listeningProcess returns the process that listens on the port of an address, in a form like "postgres (pid 812)".
// listeningProcess returns "" if /proc does not show the process.
func listeningProcess(address string) string {
	_, portText, _ := net.SplitHostPort(address)
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeningInodes(table, uint16(port), inodes)
	}
	if len(inodes) == 0 {
		return ""
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // fails for a bad pattern only
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || !strings.HasPrefix(target, "socket:[") {
			continue
		}
		if inodes[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] {
			pid := strings.Split(fd, "/")[2]
			comm, _ := os.ReadFile("/proc/" + pid + "/comm") // if the process has ended, the pid alone
			return strings.TrimSpace(fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), pid))
		}
	}
	return ""
}

// listeningInodes adds to inodes the inodes of those sockets in a /proc/net table that listen on port.
func listeningInodes(table string, port uint16, inodes map[string]bool) {
	file, err := os.Open(table)
	if err != nil {
		return
	}
	defer file.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// The columns of /proc/net/tcp are: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		// ...
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == tcpListen {
			inodes[fields[9]] = true
		}
	}
}
