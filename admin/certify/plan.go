package certify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Bounds of what is asked for.
const (
	MinSize  = 8 << 20 // bytes, of a scratch volume
	MaxSize  = 1 << 40 // bytes, of a scratch volume, which a check doubles
	MaxBurst = 64      // volumes that are made in the middle of one handover
	rounds   = 2       // how often every controller gets leadership
	spare    = 6       // scratch volumes beside those of a burst, of which up to three are claims
)

// Plan is what a run does. It is shown before it is done.
type Plan struct {
	Cluster     string     `json:"cluster"`
	SizeBytes   int64      `json:"size_bytes"` // of each scratch volume
	Burst       int        `json:"burst"`
	Hosts       []string   `json:"hosts"`              // that get scratch volumes
	LeftOut     []string   `json:"left_out,omitempty"` // hosts that get none, and why
	Rows        int        `json:"rows"`               // of the conformance suite that are checked
	Handovers   []string   `json:"handovers"`
	Restarts    []string   `json:"restarts,omitempty"`     // controllers whose processes are stopped and started anew
	Writes      *WritePlan `json:"writes,omitempty"`       // nil: nothing is written on a host
	Plugins     []string   `json:"node_plugins,omitempty"` // hosts whose node plugins are restarted while pods write
	Volumes     int        `json:"volumes"`                // made in all, at most
	AtOnce      int        `json:"at_once"`                // that exist at one time, at most
	Leftovers   []string   `json:"leftovers,omitempty"`    // of interrupted runs, which are removed first, by id
	MinimumFree int64      `json:"minimum_free_bytes"`     // that a host must have
}

// NewPlan makes the plan for a cluster whose facts show no trouble. The error is of a request that no cluster can follow, or of a
// cluster without room.
func NewPlan(cluster string, f *Facts, size int64, burst int, leftovers []*adminpb.Volume) (*Plan, error) {
	switch {
	case size < MinSize:
		return nil, fmt.Errorf("scratch volumes of %d bytes are too small: choose %d or more", size, MinSize)
	case size > MaxSize:
		return nil, fmt.Errorf("scratch volumes of %d bytes are too large: choose %d or less", size, int64(MaxSize))
	case burst < 1 || burst > MaxBurst:
		return nil, fmt.Errorf("%d volumes in the middle of a handover: choose 1 to %d", burst, MaxBurst)
	}
	p := &Plan{Cluster: cluster, SizeBytes: size, Burst: burst, AtOnce: burst + spare, Handovers: Handovers(f.Status.GetLeader(), f.Members)}
	p.MinimumFree = int64(p.AtOnce) * size
	for _, n := range f.Nodes {
		if why := noRoom(n, p.MinimumFree); why != "" {
			p.LeftOut = append(p.LeftOut, n.GetId()+": "+why)
			continue
		}
		p.Hosts = append(p.Hosts, n.GetId())
	}
	if len(p.Hosts) == 0 {
		return nil, fmt.Errorf("no host has room for %d scratch volumes of %d bytes: choose a smaller size", p.AtOnce, size)
	}
	for _, v := range leftovers {
		p.Leftovers = append(p.Leftovers, v.GetId())
	}
	world := World{Run: "0123456789abcdef", SizeBytes: size, Hosts: p.Hosts}
	for _, c := range Checks() {
		p.Volumes += len(c.creates(world))
		p.Rows += len(c.Rows)
	}
	p.Volumes += len(p.Handovers)*(burst+1) + 1 + len(Checks()) + 1 // with the claims
	return p, nil
}

// Restart adds the restart of every voter, one after another, to the plan: the one that leads now is the last.
func (p *Plan) Restart(f *Facts) {
	all := Handovers(f.Status.GetLeader(), f.Members)
	p.Restarts = all[:len(all)/rounds]
	p.Volumes += len(p.Restarts) * (p.Burst + 1) // with the claims
}

// RestartPlugins adds the restart of the node plugin of every host on which pods write, one after another.
func (p *Plan) RestartPlugins() {
	p.Plugins = p.Writes.Hosts
	p.Volumes += len(p.Plugins) * (p.Burst + 1) // with the claims
}

// Disturbances are how often volumes are made while something is handed over or restarted.
func (p *Plan) Disturbances() int { return len(p.Handovers) + len(p.Restarts) + len(p.Plugins) }

// NotToWriteOn says why a host cannot have a claim of the writes beside the scratch volumes; empty: it can.
func (p *Plan) NotToWriteOn(f *Facts, host string, w *WritePlan) string {
	for _, n := range f.Nodes {
		switch {
		case n.GetId() != host:
		case w.Replicated && (n.GetReplicationAddress() == "" || n.GetNoNewReplicas()):
			return "it holds no replicas of replicated volumes"
		default:
			return noRoom(n, p.MinimumFree+w.SizeBytes)
		}
	}
	return "the cluster has no host of its name"
}

// noRoom says why a host gets no scratch volumes; empty: it gets some.
func noRoom(n *adminpb.Node, need int64) string {
	if n.GetCordoned() {
		return "it is cordoned"
	}
	for _, p := range n.GetPools() {
		free := p.GetCapacityBytes()*int64(max(p.GetOvercommitPercent(), 100))/100 - p.GetReservedBytes()
		if p.GetMeasured() {
			free = min(free, p.GetFreeBytes()-p.GetMinFreeBytes())
		}
		if p.GetCondition() == "" && free >= need {
			return ""
		}
	}
	return fmt.Sprintf("no pool has %d bytes free", need)
}

// Handovers are the controllers that get leadership, one after another: every voter twice, the one that leads now last.
func Handovers(leader string, members []*adminpb.Member) (all []string) {
	var names []string
	for _, m := range members {
		if m.GetVoter() {
			names = append(names, m.GetId())
		}
	}
	slices.SortFunc(names, func(a, b string) int { // false before true: the leader is the last
		if (a == leader) != (b == leader) {
			if b == leader {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	for range rounds {
		all = append(all, names...)
	}
	return all
}

// Text is the plan for people.
func (p *Plan) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n", p.Cluster)
	for _, id := range p.Leftovers {
		fmt.Fprintf(&b, "first volume %s is removed, which an interrupted run left\n", id)
	}
	fmt.Fprintf(&b, "up to %d scratch volumes of %d bytes are made, at most %d at a time, on hosts %s, and removed again\n", p.Volumes, p.SizeBytes, p.AtOnce, strings.Join(p.Hosts, ", "))
	for _, why := range p.LeftOut {
		fmt.Fprintf(&b, "none is made on host %s\n", why)
	}
	fmt.Fprintf(&b, "%d rows of the conformance suite are checked, of %d\n", p.Rows, len(SuiteRows()))
	fmt.Fprintf(&b, "leadership is handed to %s, each time in the middle of %d creations\n", strings.Join(p.Handovers, ", then "), p.Burst)
	switch {
	case len(p.Restarts)+len(p.Plugins) == 0:
		fmt.Fprintln(&b, "no process is stopped")
	case len(p.Restarts) > 0:
		fmt.Fprintf(&b, "the controllers %s are restarted, each in the middle of %d creations, and the next when the one before serves again\n", strings.Join(p.Restarts, ", then "), p.Burst)
	}
	if len(p.Plugins) > 0 {
		fmt.Fprintf(&b, "the node plugins of the hosts %s are restarted in the same way, and pods there must not notice\n", strings.Join(p.Plugins, ", then "))
	}
	if p.Writes != nil {
		p.Writes.text(&b)
	}
	return b.String()
}
