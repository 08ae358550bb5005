package admin

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ReachRequest names whom a host is to reach.
type ReachRequest struct {
	Controllers []string // addresses of their APIs
	Hosts       []string // replication addresses of the other hosts
	Port        uint32   // that no replica uses, on which the hosts listen for each other meanwhile
}

// Listen is whether a host could listen for the others.
type Listen struct {
	Address string
	Err     string // empty: it could
	NotOurs bool   // the host does not have the address
}

// The ports of replicas: each volume has one, on both of its hosts.
const firstReplicaPort, lastReplicaPort = 7800, 65535

// probePort is the highest port that no volume has: the log gives them out from below.
func (p *patient) probePort() uint32 {
	used := map[uint32]bool{}
	for v := range p.state.Volumes("") {
		if v.Replication != nil {
			used[v.Replication.Port] = true
		}
	}
	port := uint32(lastReplicaPort)
	for used[port] {
		port--
	}
	return port
}

// reachRequests are by node. Every host is to reach every controller; those that replicate reach each other, also where they
// share no volume yet.
func (p *patient) reachRequests() map[string]ReachRequest {
	var controllers []string
	for _, m := range p.members {
		if m.Err == nil && m.APIAddress != "" {
			controllers = append(controllers, m.APIAddress)
		}
	}
	hosts, port := p.replicationHosts(), p.probePort()
	requests := map[string]ReachRequest{}
	for _, n := range p.nodes {
		r := ReachRequest{Controllers: controllers}
		if own, ok := hosts[n.GetId()]; ok {
			r.Port = port
			for id, address := range hosts {
				if id != n.GetId() && address != own {
					r.Hosts = append(r.Hosts, address)
				}
			}
			slices.Sort(r.Hosts)
		}
		requests[n.GetId()] = r
	}
	return requests
}

// replicationHosts are the addresses of the reachable hosts that replicate, by node.
func (p *patient) replicationHosts() map[string]string {
	hosts := map[string]string{}
	for n := range p.state.Nodes() {
		if n.State == fsm.NodeReachable && n.Replication.Address != "" {
			hosts[string(n.ID)] = n.Replication.Address
		}
	}
	return hosts
}

// checkHostPairs looks for hosts that do not reach each other where replicas connect. DRBD's handlers ask the host's own
// node process, so that the way of their question is the one to the controllers.
func checkHostPairs(p *patient) (out []*adminpb.Diagnosis) {
	names := map[string]string{} // by address
	for id, address := range p.replicationHosts() {
		names[address] = id
	}
	for _, n := range p.nodes {
		answer, asked := p.onNodes[n.GetId()]
		if !asked || answer.err != nil {
			continue // said elsewhere
		}
		out = append(out, listenDiagnosis(nodeSubject(n), answer.Listen)...)
		var reached []string
		for _, r := range answer.Hosts {
			address, port, _ := net.SplitHostPort(r.Address)
			other, known := names[address]
			if !known {
				continue // it was not asked for that: a host may answer anything
			}
			if d := p.pairDiagnosis(n.GetId(), other, port, r); d != nil {
				out = append(out, d)
				continue
			}
			reached = append(reached, other)
		}
		if len(reached) > 0 {
			out = append(out, fine(nodeSubject(n), "it reaches %s where replicas connect: %s", CountOf(len(reached), "other host"), strings.Join(reached, ", ")))
		}
	}
	return out
}

// listenDiagnosis is nil for a host that could listen, or was not asked to.
func listenDiagnosis(subject string, l *Listen) []*adminpb.Diagnosis {
	switch {
	case l == nil || l.Err == "":
		return nil
	case l.NotOurs:
		return one(diagnose(SeverityError, subject, "give its node process the host's network, or correct --replication-address", "it does not have its replication address: it cannot listen on %s: %s", l.Address, l.Err))
	}
	return one(diagnose(SeverityWarn, subject, fmt.Sprintf("see `ss -ltn` there for who listens on %s, and ask again", l.Address),
		"it could not listen on %s, on which the other hosts tried to reach it: %s", l.Address, l.Err))
}

// pairDiagnosis is nil where one host reaches the other. A host that refuses a port on which it does not listen was reached.
func (p *patient) pairDiagnosis(from, to, port string, r Reached) *adminpb.Diagnosis {
	l := p.onNodes[to].Listen
	if r.Err == "" || r.Refused && (l == nil || l.Err != "") {
		return nil
	}
	severity, consequence := SeverityWarn, "a volume with replicas on both would not connect"
	if p.shareVolumes(from, to) {
		severity, consequence = SeverityError, "they have replicas of the same volumes"
	}
	remedy := fmt.Sprintf("open TCP %d to %d from %s to %s in the firewalls between them, or mend the route", firstReplicaPort, lastReplicaPort, p.addressOf(from), p.addressOf(to))
	return diagnose(severity, "pair "+from+"/"+to, remedy, "host %s does not reach host %s at %s, port %s, where replicas connect: %s; %s", from, to, p.addressOf(to), port, r.Err, consequence)
}

func (p *patient) addressOf(node string) string {
	n, ok := p.state.Node(fsm.NodeID(node))
	if !ok {
		return ""
	}
	return n.Replication.Address
}

func (p *patient) shareVolumes(a, b string) bool {
	for v := range p.state.Volumes("") {
		on := map[fsm.NodeID]bool{}
		for _, r := range v.ActiveReplicas() {
			on[r.Node] = true
		}
		if on[fsm.NodeID(a)] && on[fsm.NodeID(b)] {
			return true
		}
	}
	return false
}
