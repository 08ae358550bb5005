package session

import "github.com/holdfast-storage/holdfast/executor/session/sessionpb"

// Reachability names whom a host is to reach, for a question about what it shows of itself. Zero: nobody.
type Reachability struct {
	Controllers []string // addresses of their APIs
	Hosts       []string // the other hosts' replication addresses, without a port
	// Port is one that no replica uses. The host listens there for seconds; 0: it does not, and tries no host.
	Port uint32
}

func (r Reachability) proto() *sessionpb.Reachability {
	return &sessionpb.Reachability{Controllers: r.Controllers, Hosts: r.Hosts, Port: r.Port}
}

func reachabilityFrom(r *sessionpb.Reachability) Reachability {
	return Reachability{Controllers: r.GetControllers(), Hosts: r.GetHosts(), Port: r.GetPort()}
}
