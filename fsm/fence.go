package fsm

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Fence is one owner's fence of one CIDR. It is recorded also where no host matches. The hosts that it
// binds stay bound by their ids, whatever their addresses become (S57).
type Fence struct {
	CIDR  string // masked
	Owner FenceOwner
	Since uint64       // the entry that began it
	Bound []FencedHost // sorted
}

// FencedHost is a host that a fence binds.
type FencedHost struct {
	Node NodeID
	Host HostID
}

func (h FencedHost) compare(o FencedHost) int {
	return cmp.Or(cmp.Compare(h.Node, o.Node), cmp.Compare(h.Host, o.Host))
}

func (h FencedHost) String() string { return string(h.Node) + "/" + string(h.Host) }

// FenceOwner is who may end a fence: the site through which it was made, or the operators (S59).
type FenceOwner string

// FenceOfOperator is the owner of what operators fence for no site.
const FenceOfOperator FenceOwner = "operator"

// FenceOwnerOf is the owner of what the actor fences through the endpoint of a site.
func FenceOwnerOf(actor, site string) FenceOwner {
	if site == "" && hasRole(actor, "admin/") {
		return FenceOfOperator
	}
	return FenceOwner("site/" + cmp.Or(site, DefaultSite))
}

// storedFence is a fence in its table, with the hash of what it holds.
type storedFence struct {
	Fence
	hash sum256
}

func (f *storedFence) before(o *storedFence) bool {
	return cmp.Or(cmp.Compare(f.CIDR, o.CIDR), cmp.Compare(f.Owner, o.Owner)) < 0
}

// Fences yields all fences, in order of CIDR and owner.
func (s *State) Fences() iter.Seq[*Fence] {
	return func(yield func(*Fence) bool) {
		s.fences.Scan(func(f *storedFence) bool { return yield(&f.Fence) })
	}
}

// Fence is the owner's fence of a CIDR.
func (s *State) Fence(cidr string, owner FenceOwner) (*Fence, bool) {
	f, ok := s.fences.Get(&storedFence{Fence: Fence{CIDR: cidr, Owner: owner}})
	if !ok {
		return nil, false
	}
	return &f.Fence, true
}

// FencesOf yields the fences that bind the host.
func (s *State) FencesOf(n *Node) iter.Seq[*Fence] {
	return func(yield func(*Fence) bool) {
		for f := range s.Fences() {
			if slices.Contains(f.Bound, FencedHost{n.ID, n.Host}) && !yield(f) {
				return
			}
		}
	}
}

// isBound tells whether a fence binds the host, or its node is out of service.
func (s *State) isBound(n *Node) bool {
	if n.OutOfService != 0 {
		return true
	}
	for range s.FencesOf(n) {
		return true
	}
	return false
}

// putFence is the only way a fence enters the state or changes.
func (s *State) putFence(f Fence) {
	s.storeFence(f)
	s.writes++
}

func (s *State) storeFence(f Fence) {
	r := &storedFence{Fence: f, hash: hashFence(&s.scratch, &f)}
	if old, replaced := s.fences.Set(r); replaced {
		s.sum = s.sum.minus(old.hash)
	}
	s.sum = s.sum.plus(r.hash)
}

func (s *State) removeFence(f *Fence) {
	if old, ok := s.fences.Delete(&storedFence{Fence: *f}); ok {
		s.sum = s.sum.minus(old.hash)
		s.writes++
	}
}

func hashFence(e *encoder, f *Fence) sum256 {
	e.begin(kindFence)
	e.str(f.CIDR)
	e.str(string(f.Owner))
	e.u64(f.Since)
	e.u64(uint64(len(f.Bound)))
	for _, h := range f.Bound {
		e.str(string(h.Node))
		e.str(string(h.Host))
	}
	return e.sum()
}

func fenceRecord(f *Fence) *fsmpb.FenceRecord {
	r := &fsmpb.FenceRecord{Cidr: f.CIDR, Owner: string(f.Owner), Since: f.Since}
	for _, h := range f.Bound {
		r.Bound = append(r.Bound, &fsmpb.FencedHost{NodeId: string(h.Node), HostId: string(h.Host)})
	}
	return r
}

func (x *dumpDecoder) fence(r *fsmpb.FenceRecord) error {
	f := Fence{CIDR: r.GetCidr(), Owner: FenceOwner(r.GetOwner()), Since: r.GetSince(), Bound: fencedHostsFrom(r.GetBound())}
	x.s.storeFence(f)
	return x.checkOrder(9, f.CIDR+"\x00"+string(f.Owner))
}

func fencedHostsFrom(hosts []*fsmpb.FencedHost) (all []FencedHost) {
	for _, h := range hosts {
		all = append(all, FencedHost{Node: NodeID(h.GetNodeId()), Host: HostID(h.GetHostId())})
	}
	return all
}

// fencedPrefix reads a CIDR. One that maps IPv4 into IPv6 stands for its IPv4 addresses, as these have
// several forms.
func fencedPrefix(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, false
	}
	const mapped = 96
	if p.Addr().Is4In6() {
		if p.Bits() < mapped {
			return p, false
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), true
}

// hostAddress reads an address of a host, without a zone: that names an interface of one host only.
func hostAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, false
	}
	return a.WithZone("").Unmap(), true
}

// HostAddresses are all addresses by which a fence finds the host, sorted.
func (n *Node) HostAddresses() []netip.Addr {
	var all []netip.Addr
	for _, text := range append(slices.Clone(n.Addresses), n.Replication.Address) {
		if a, ok := hostAddress(text); ok {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// isInside tells whether one of the host's addresses is in one of the CIDRs.
func (n *Node) isInside(cidrs []netip.Prefix) bool {
	for _, a := range n.HostAddresses() {
		if slices.ContainsFunc(cidrs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return true
		}
	}
	return false
}

// IsAt tells whether the host is at the site.
func (n *Node) IsAt(site string) bool {
	return n.site() == SiteFrom(site)
}
