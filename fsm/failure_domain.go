package fsm

import (
	"math"
	"math/bits"
	"slices"
)

// FailureDomain is what hosts stop together with.
type FailureDomain uint8

const (
	// DomainNode: each host on its own.
	DomainNode FailureDomain = iota
	// DomainZone: the hosts of one zone, by their label ZoneKey. Those without one are together.
	DomainZone
	// DomainSite: the hosts of one site.
	DomainSite
)

func (d FailureDomain) String() string { return [...]string{"node", "zone", "site"}[d] }

// of is the domain that a host is in.
func (d FailureDomain) of(n *Node) string {
	switch d {
	case DomainZone:
		return n.segment(ZoneKey).Value
	case DomainSite:
		return n.site().String()
	}
	return string(n.ID)
}

// NodesIn are the hosts of a domain, in order, those that are lost left out; none where no host is in it. A host without a
// zone is in none.
func (s *State) NodesIn(d FailureDomain, name string) (nodes []NodeID) {
	for n := range s.Nodes() {
		if name != "" && n.State != NodeLost && d.of(n) == name {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}

// Tolerance is how many domains may stop now, whichever they are: without that a copy of the content is left out of
// reach of everybody (Loss), and without that the volume cannot be used any more (Use).
type Tolerance struct{ Loss, Use int }

func (t Tolerance) min(o Tolerance) Tolerance {
	return Tolerance{Loss: min(t.Loss, o.Loss), Use: min(t.Use, o.Use)}
}

// VolumeTolerance is that of one volume. A volume with one copy tolerates nothing.
func (s *State) VolumeTolerance(v *Volume, d FailureDomain) Tolerance {
	return (&failureView{s: s, stopped: s.inMaintenance()}).trials(v).tolerance(v, d)
}

// maxNodesTried bounds the trials: a volume that many hosts read is published to more.
const maxNodesTried = 6

// trials are the impacts on a volume of every set of the hosts that have something of it.
type trials struct {
	nodes   []*Node
	impacts []Impact // by the set of hosts, one bit each
}

// trials tries them; none where the hosts are too many.
func (x *failureView) trials(v *Volume) *trials {
	t := &trials{}
	for _, id := range v.InvolvedNodes() {
		if n, ok := x.s.Node(id); ok {
			t.nodes = append(t.nodes, n)
		}
	}
	if len(t.nodes) > maxNodesTried {
		return &trials{}
	}
	for set := range 1 << len(t.nodes) {
		x.also = x.also[:0]
		for i, n := range t.nodes {
			if set&(1<<i) != 0 {
				x.also = append(x.also, n.ID)
			}
		}
		t.impacts = append(t.impacts, x.impactOf(v))
	}
	x.also = nil
	return t
}

// tolerance is one less than the least number of domains that together are too many.
func (t *trials) tolerance(v *Volume, d FailureDomain) Tolerance {
	if len(t.impacts) == 0 {
		return Tolerance{}
	}
	sets := t.setsOf(d)
	least := Tolerance{Loss: len(sets), Use: len(sets)}
	for domains := range 1 << len(sets) {
		set := 0
		for i := range sets {
			if domains&(1<<i) != 0 {
				set |= sets[i]
			}
		}
		impact, below := t.impacts[set], max(0, bits.OnesCount(uint(domains))-1)
		if impact == ImpactLost || impact >= ImpactUnavailable && v.Replication == nil {
			least.Loss = min(least.Loss, below)
		}
		if impact >= ImpactUnavailable {
			least.Use = min(least.Use, below)
		}
	}
	return least
}

// setsOf are the hosts of each domain, as sets.
func (t *trials) setsOf(d FailureDomain) (sets []int) {
	var names []string
	for i, n := range t.nodes {
		at := slices.Index(names, d.of(n))
		if at < 0 {
			at, names, sets = len(names), append(names, d.of(n)), append(sets, 0)
		}
		sets[at] |= 1 << i
	}
	return sets
}

// ClusterTolerance is what the cluster tolerates now: the least of its replicated volumes.
type ClusterTolerance struct {
	Node, Zone, Site Tolerance
	// Replicated volumes that have no second copy now, and local ones, which never have one.
	WithoutRedundancy, Local uint64
	// LimitedBy is the first volume that tolerates the least, by hosts; empty where there is none.
	LimitedBy VolumeID
}

// ClusterTolerance is the least of all volumes that are Ready and replicated. Without any, it is that of a local volume
// where there is one: nothing; and else the number of domains.
func (s *State) ClusterTolerance() ClusterTolerance {
	most := Tolerance{math.MaxInt, math.MaxInt}
	all := ClusterTolerance{Node: most, Zone: most, Site: most}
	x := &failureView{s: s, stopped: s.inMaintenance()}
	replicated := false
	for v := range s.Volumes("") {
		if _, ready := v.Phase.(Ready); !ready {
			continue
		}
		if v.Replication == nil {
			all.Local++
			continue
		}
		replicated = true
		t := x.trials(v)
		all.add(v, t.tolerance(v, DomainNode), t.tolerance(v, DomainZone), t.tolerance(v, DomainSite))
	}
	if !replicated {
		all.Node, all.Zone, all.Site = s.ofNoReplicated(all.Local, DomainNode), s.ofNoReplicated(all.Local, DomainZone), s.ofNoReplicated(all.Local, DomainSite)
	}
	return all
}

func (c *ClusterTolerance) add(v *Volume, node, zone, site Tolerance) {
	if node.Loss == 0 {
		c.WithoutRedundancy++
	}
	if node.Use < c.Node.Use || c.LimitedBy == "" {
		c.LimitedBy = v.ID
	}
	c.Node, c.Zone, c.Site = c.Node.min(node), c.Zone.min(zone), c.Site.min(site)
}

// ofNoReplicated is the tolerance of a cluster without replicated volumes.
func (s *State) ofNoReplicated(local uint64, d FailureDomain) Tolerance {
	names := map[string]bool{}
	for n := range s.Nodes() {
		if n.canBeAsked() {
			names[d.of(n)] = true
		}
	}
	if local > 0 {
		return Tolerance{}
	}
	return Tolerance{Loss: len(names), Use: len(names)}
}
