package startup

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file has the authentication method peer: the kernel names the user of the process at the Unix socket. The client
// may be the database user of that name, or a user that auth.peer_map allows.

// PeersKnown reports whether this system can name the process at a Unix socket.
const PeersKnown = rawconn.PeersKnown

// strangerUID is Linux's number for users of another user namespace that have no number in the namespace of this
// process. All such users look alike.
const strangerUID = 65534

// peerMap maps an operating system's user, by name or number, to the database users that this user may be. A user
// without an entry may be the database user of the same name only.
type peerMap map[string][]string

// parsePeerMap parses entries of the form osuser=user.
func parsePeerMap(entries []string) (peerMap, error) {
	allowed := peerMap{}
	for _, entry := range entries {
		of, name, ok := strings.Cut(entry, "=")
		of, name = strings.TrimSpace(of), strings.TrimSpace(name)
		if !ok || of == "" || name == "" {
			return nil, fmt.Errorf("auth.peer_map: %q: want osuser=user, the former a name or number of this machine, such as 1000=app", entry)
		}
		allowed[of] = append(allowed[of], name)
	}
	return allowed, nil
}

// allows reports whether a process with the user number uid may be the database user name. of is the name of the user
// uid (or the number), for an error.
func (p peerMap) allows(uid uint32, name string, lookUp func(uid string) (*user.User, error)) (of string, ok bool) {
	number := strconv.FormatUint(uint64(uid), 10)
	of = number
	if uid == strangerUID {
		return of, false
	}
	may := p[number]
	known, err := lookUp(number)
	if err == nil {
		of = known.Username
		may = append(may[:len(may):len(may)], p[of]...)
	}
	if len(may) == 0 && err == nil {
		may = []string{of}
	}
	for _, each := range may {
		ok = ok || each == name
	}
	return of, ok
}

var errNotByPeer = &wire.Error{Fatal: true, Code: "28000", Message: "peer authentication is for clients of the Unix socket (auth.method)",
	Hint: "Connect to the socket in the directory that listen.unix_socket names."}

// authenticatePeer checks that the process at the other end of the Unix socket may be the database user name.
func (g *clientHandshake) authenticatePeer(name string) error {
	_, uid, ok := rawconn.PeerProcess(g.raw.NetConn())
	if !ok {
		return errNotByPeer
	}
	of, ok := g.peers.allows(uid, name, user.LookupId)
	if ok {
		return nil
	}
	return &wire.Error{Fatal: true, Code: "28000", Message: fmt.Sprintf("Peer authentication failed for user \"%s\"", name),
		Detail: fmt.Sprintf("The process at the socket is one of \"%s\", of number %d.", of, uid),
		Hint:   "Connect as the user of that name, or add it to auth.peer_map in Sluice's configuration: " + of + "=" + name + "."}
}
