package fsm

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyUnfenceNetwork ends the owner's own fences of exactly these CIDRs; one that is not known is
// ended already (S59). A host that nothing binds any more serves again after a later session. A command that was
// decided before a fence began is not about that one: a call that was held up ends nothing that came after it.
func applyUnfenceNetwork(s *State, m Meta, c *fsmpb.UnfenceNetwork) (*fsmpb.Outcome, *Rejection) {
	cidrs, rej := fencedPrefixes(c.GetCidrs())
	if rej != nil {
		return nil, rej
	}
	ending := s.fencesOf(FenceOwnerOf(m.Actor, m.siteName()), cidrs)
	for _, f := range ending {
		if m.Proposed != 0 && m.Proposed < f.Since {
			return nil, Reject(Busy, "unfence %s: the fence began at index %d, after this was decided; retry", f.CIDR, f.Since)
		}
	}
	var unbound []FencedHost
	for _, f := range ending {
		unbound = append(unbound, f.Bound...)
		s.removeFence(f)
	}
	for _, h := range unbound {
		if n, ok := s.Node(h.Node); ok && n.Host == h.Host {
			s.liftFence(n)
		}
	}
	return &fsmpb.Outcome{}, nil
}

// fencesOf are the owner's fences of exactly these CIDRs.
func (s *State) fencesOf(owner FenceOwner, cidrs []netip.Prefix) (fences []*Fence) {
	for _, p := range cidrs {
		if f, ok := s.Fence(p.String(), owner); ok {
			fences = append(fences, f)
		}
	}
	return fences
}

func (s *State) liftFence(n *Node) {
	if !n.IsFenced() || n.Fence.Lifted != 0 || s.isBound(n) {
		return
	}
	updated := *n
	updated.Fence.Lifted = s.cluster.Index
	s.putNode(updated)
}

// fenceAtRegistration is a host's fence as it registers. One that was not known is bound by the fences
// that its addresses are in, and one that was lost and comes back stays bound by its id: it is fenced from its first
// entry (S57, S60). A known one whose fences ended is
// on its way back with a session that begins after that.
func (s *State) fenceAtRegistration(m Meta, old, n *Node) NodeFence {
	if old == nil || old.Host != n.Host {
		return s.bindNewHost(n)
	}
	f := old.Fence
	if f.Lifted != 0 && (m.Proposed == 0 || m.Proposed >= f.Lifted) {
		f.Session = m.Index
	}
	if f.Session != 0 && !s.owesTeardown(n) {
		return NodeFence{}
	}
	return f
}

func (s *State) bindNewHost(n *Node) (fenced NodeFence) {
	if n.OutOfService != 0 {
		fenced.Since = s.cluster.Index
	}
	for f := range s.fences.Copy().Scan {
		if slices.Contains(f.Bound, FencedHost{n.ID, n.Host}) {
			fenced.Since = s.cluster.Index
			continue
		}
		p, ok := fencedPrefix(f.CIDR)
		if !ok || !n.isInside([]netip.Prefix{p}) {
			continue
		}
		updated := f.Fence
		updated.Bound = append(slices.Clone(f.Bound), FencedHost{n.ID, n.Host})
		slices.SortFunc(updated.Bound, FencedHost.compare)
		s.putFence(updated)
		fenced.Since = s.cluster.Index
	}
	return fenced
}

// owesTeardown tells whether the host has a pending teardown.
func (s *State) owesTeardown(n *Node) bool {
	for range s.volumesWithTeardownOn(n.ID) {
		return true
	}
	return false
}

// serveAgain ends the fence of a host that reported every teardown in a session begun after its fences
// ended (S59).
func (s *State) serveAgain(n *Node) {
	if n.Fence.Session == 0 || s.owesTeardown(n) {
		return
	}
	updated := *n
	updated.Fence = NodeFence{}
	s.putNode(updated)
	s.announceServing(&updated)
}

// announceServing wakes those that wait for a host that can be asked again.
func (s *State) announceServing(n *Node) {
	s.beginSweep(SweepWaiting, n, "")
	s.runSweeps()
	s.wakeWaiters(n.ID)
}

// addressesFrom are a host's addresses in the form in which they are compared.
func addressesFrom(given []string) ([]string, *Rejection) {
	const maxAddresses = 64
	if len(given) > maxAddresses {
		return nil, Reject(Invalid, "%d addresses are given, more than %d", len(given), maxAddresses)
	}
	var all []string
	for _, text := range given {
		a, ok := hostAddress(text)
		if !ok {
			return nil, Reject(Invalid, "%q is no IP address", clip(text))
		}
		all = append(all, a.String())
	}
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all), nil
}
