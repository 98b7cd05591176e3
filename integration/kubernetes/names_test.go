package kubernetes

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sluice-proxy/sluice/integration/kubernetes/cluster"
)

// serveNames answers names of Services, as the cluster's DNS does for those without an
// address of their own: with the addresses of the pods that are ready.
func serveNames() (net.PacketConn, error) {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(cluster.Address, "53"))
	if err != nil {
		return nil, err
	}
	go func() {
		for buffer := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			question := append([]byte(nil), buffer[:n]...)
			go func() {
				if answer, err := answerName(question); err == nil {
					_, _ = conn.WriteTo(answer, from)
				}
			}()
		}
	}()
	return conn, nil
}

func answerName(question []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(question)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	addresses, err := addressesOf(strings.ToLower(q.Name.String()))
	answer := dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired}
	if err != nil {
		answer.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, answer)
	b.EnableCompression()
	if err := errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers()); err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address).To4(); ip != nil && q.Type == dnsmessage.TypeA {
			if err := b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, dnsmessage.AResource{A: [4]byte(ip)}); err != nil {
				return nil, err
			}
		}
	}
	return b.Finish()
}

// addressesOf are those of a Service, by its full name.
func addressesOf(name string) ([]string, error) {
	labels := strings.Split(strings.TrimSuffix(name, ".svc."+cluster.Domain+"."), ".")
	if len(labels) != 2 {
		return nil, errors.New("no Service's name")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := world.Kubectl(ctx, "", "-n", labels[1], "get", "endpointslices", "-l", "kubernetes.io/service-name="+labels[0],
		"-o", "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}")
	return strings.Fields(out), err
}
