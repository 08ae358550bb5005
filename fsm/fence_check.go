package fsm

import "slices"

// checkFences is S57 and S59: a fence is well-formed, a host is fenced as long as one binds it, and until
// it served its way back; while it is, it holds no publication.
func (s *State) checkFences() error {
	for f := range s.Fences() {
		if err := s.checkFence(f); err != nil {
			return err
		}
	}
	for n := range s.Nodes() {
		if err := s.checkFencedNode(n); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) checkFence(f *Fence) error {
	p, ok := fencedPrefix(f.CIDR)
	switch {
	case !s.level2(), !ok || p.String() != f.CIDR, f.Owner == "", f.Since == 0 || f.Since > s.cluster.Index,
		!slices.IsSortedFunc(f.Bound, FencedHost.compare):
		return violated("S57", "the fence %s of %s is malformed", f.CIDR, f.Owner)
	}
	for _, h := range f.Bound {
		if n, ok := s.Node(h.Node); ok && n.Host == h.Host && (!n.IsFenced() || n.Fence.Lifted != 0) {
			return violated("S57", "the fence %s of %s binds host %s, which is not fenced", f.CIDR, f.Owner, h)
		}
	}
	return nil
}

func (s *State) checkFencedNode(n *Node) error {
	x, at := n.Fence, s.cluster.Index
	switch {
	case !n.IsFenced() && x != (NodeFence{}), max(x.Since, x.Lifted, x.Session) > at, x.Session != 0 && (x.Lifted == 0 || x.Session < x.Lifted):
		return violated("S59", "node %s is fenced as %v in a state at %d", n.ID, x, at)
	case n.OutOfService > at, n.OutOfService != 0 && (!n.IsFenced() || x.Lifted != 0):
		return violated("S171", "node %s is out of service since %d and not fenced", n.ID, n.OutOfService)
	case !n.IsFenced():
		return nil
	case x.Lifted == 0 && !s.isBound(n):
		return violated("S59", "node %s is fenced by nothing", n.ID)
	}
	for v := range s.VolumesOn(n.ID) {
		if p := v.Publication(n.ID); p != nil && p.Host == n.Host {
			return violated("S57", "volume %s is published to node %s, which is fenced", v.ID, n.ID)
		}
	}
	return nil
}
