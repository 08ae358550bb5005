package fsm

import (
	"net/netip"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// maxFencedCIDRs bounds one command, maxFences the table: both are searched by every registration.
const (
	maxFencedCIDRs = 256
	maxFences      = 4096
)

// applyFenceNetwork fences the hosts that have an address in the CIDRs (S57). A CIDR that its owner
// fences already binds nobody new (S60).
func applyFenceNetwork(s *State, m Meta, c *fsmpb.FenceNetwork) (*fsmpb.Outcome, *Rejection) {
	f, rej := s.readFencing(m.Actor, m.siteName(), c)
	if rej != nil {
		return nil, rej
	}
	if rej := f.check(c); rej != nil {
		return nil, rej
	}
	for _, p := range f.added {
		s.putFence(Fence{CIDR: p.String(), Owner: f.owner, Since: m.Index, Bound: boundBy(p, f.hosts)})
	}
	for _, n := range f.hosts {
		s.fenceHost(n)
	}
	s.runSweeps()
	return &fsmpb.Outcome{}, nil
}

// fencing is what a command fences that its owner has not fenced yet.
type fencing struct {
	s        *State
	owner    FenceOwner
	site     string // of the caller; empty: an operator, whose own hosts are all
	added    []netip.Prefix
	hosts    []*Node      // that it binds
	standing []FencedHost // that the owner's fences of the other CIDRs bind
}

func (s *State) readFencing(actor, site string, c *fsmpb.FenceNetwork) (*fencing, *Rejection) {
	cidrs, rej := fencedPrefixes(c.GetCidrs())
	if rej == nil && !s.level2() {
		rej = Reject(Unsupported, "fence: the cluster runs at feature level %d, which has no fences", s.cluster.FeatureLevel)
	}
	if rej != nil {
		return nil, rej
	}
	f := &fencing{s: s, owner: FenceOwnerOf(actor, site)}
	if f.owner != FenceOfOperator {
		f.site = string(f.owner[len("site/"):])
	}
	for _, p := range cidrs {
		if known, ok := s.Fence(p.String(), f.owner); ok {
			f.standing = append(f.standing, known.Bound...)
		} else {
			f.added = append(f.added, p)
		}
	}
	for n := range s.Nodes() {
		if n.State != NodeLost && n.isInside(f.added) {
			f.hosts = append(f.hosts, n)
		}
	}
	return f, nil
}

// check is S60.
func (f *fencing) check(c *fsmpb.FenceNetwork) *Rejection {
	switch {
	case len(f.added) == 0:
		return nil
	case f.s.fences.Len()+len(f.added) > maxFences:
		return Reject(NoCapacity, "fence: there are %d fences, and at most %d", f.s.fences.Len(), maxFences)
	case f.coversOwnHosts():
		return Reject(Invalid, "fence: the CIDRs have every node of %s: nobody there could go on", f.ownHosts())
	case len(c.GetExpectHosts()) == 0:
		return nil
	}
	expected := fencedHostsFrom(c.GetExpectHosts())
	there := f.standing
	for _, n := range f.hosts {
		h := FencedHost{n.ID, n.Host}
		if !slices.Contains(expected, h) {
			return Reject(Invalid, "fence: the CIDRs have host %s, which is not expected", h)
		}
		there = append(there, h)
	}
	for _, h := range expected {
		if !slices.Contains(there, h) {
			return Reject(Invalid, "fence: the CIDRs have not the expected host %s", clip(h.String()))
		}
	}
	return nil
}

func (f *fencing) ownHosts() string {
	if f.site == "" {
		return "the cluster"
	}
	return "site " + f.site
}

// coversOwnHosts tells whether the CIDRs, with those that the caller fences already, fence all of its own hosts that are not
// lost.
func (f *fencing) coversOwnHosts() bool {
	own := 0
	for n := range f.s.Nodes() {
		if n.State == NodeLost || f.site != "" && !n.IsAt(f.site) {
			continue
		}
		if own++; !slices.Contains(f.hosts, n) && !slices.Contains(f.standing, FencedHost{n.ID, n.Host}) {
			return false
		}
	}
	return own > 0
}

// boundBy are those of the hosts that have an address in the CIDR.
func boundBy(p netip.Prefix, hosts []*Node) (bound []FencedHost) {
	for _, n := range hosts {
		if n.isInside([]netip.Prefix{p}) {
			bound = append(bound, FencedHost{n.ID, n.Host})
		}
	}
	return bound
}

// fenceHost fences a host: what it holds ends with this entry, and it cannot be asked any more.
func (s *State) fenceHost(n *Node) {
	fenced := NodeFence{Since: n.Fence.Since}
	if fenced.Since == 0 {
		fenced.Since = s.cluster.Index
	}
	if n.Fence == fenced {
		return // by another fence
	}
	updated := *n
	updated.Fence = fenced
	s.putNode(updated)
	s.abortGroupsOn(n.ID, Unreachable, "node "+string(n.ID)+" was fenced")
	s.beginSweep(SweepFenced, n, "")
	s.beginSweep(SweepWaiting, n, "")
	s.wakeWaiters(n.ID)
}

// withFencedHost is the volume after its host was fenced: its publication there is revoked, and a new
// generation begins where a teardown is pending there.
func (v *Volume) withFencedHost(w *Sweep) (Volume, bool) {
	p := v.Publication(w.Node)
	if p == nil || p.Host != w.Host || plantedbug.Is(plantedbug.FenceKeepsGrants) {
		return v.withBumpedGeneration(w.Host, w.Epoch.Index)
	}
	updated := v.withoutPublication(p.Node)
	updated = updated.withoutLimits(p.Host)
	if v.Replicated() {
		updated = updated.withReplication()
		updated.endGrant(w.Epoch.Index)
		updated.Replication.Generation = w.Epoch.Index
	}
	updated = updated.withTeardown(Teardown{Node: p.Node, Host: p.Host, Epoch: p.Epoch})
	if updated.OperationOf(OpTeardown) == nil { // one entry ends many: each has the id of the entry that published it
		m := Meta{Index: p.Epoch.Index, Now: w.Began}
		updated.putOperation(m.operation(OpTeardown))
	}
	return updated, true
}

// NormalizeCIDRs are the CIDRs as a fence has them: masked, sorted, each once.
func NormalizeCIDRs(cidrs []string) ([]string, *Rejection) {
	prefixes, rej := fencedPrefixes(cidrs)
	var all []string
	for _, p := range prefixes {
		all = append(all, p.String())
	}
	return all, rej
}

func fencedPrefixes(cidrs []string) ([]netip.Prefix, *Rejection) {
	if len(cidrs) == 0 || len(cidrs) > maxFencedCIDRs {
		return nil, Reject(Invalid, "fence: 1 to %d CIDRs are needed, %d are given", maxFencedCIDRs, len(cidrs))
	}
	var all []netip.Prefix
	for _, text := range cidrs {
		p, ok := fencedPrefix(text)
		if !ok {
			return nil, Reject(Invalid, "fence: %q is no CIDR", clip(text))
		}
		all = append(all, p)
	}
	slices.SortFunc(all, comparePrefixes)
	return slices.Compact(all), nil
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}
