package admin

import (
	"net/netip"
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// involved knows, while a history is read from its beginning, what entries concern without naming it: the
// hosts that a fence binds, and the volumes that leave a group. What was before the beginning is taken from the state.
type involved struct {
	state     *fsm.State
	addresses map[string][]netip.Addr // of hosts, by node
	members   map[string][]string     // of volume groups
}

func newInvolved(st *fsm.State) *involved {
	k := &involved{state: st, addresses: map[string][]netip.Addr{}, members: map[string][]string{}}
	for n := range st.Nodes() {
		k.addresses[string(n.ID)] = n.HostAddresses()
	}
	return k
}

// add completes the entry, and learns from it.
func (k *involved) add(e *adminpb.HistoryEntry) {
	c := e.GetCommand()
	if r := c.GetRegisterNode(); r != nil {
		k.addresses[r.GetNodeId()] = addressesOf(r)
	}
	if f := c.GetFenceNetwork(); f != nil {
		e.FencedNodes = k.fenced(e.GetIndex(), f.GetCidrs())
	}
	if f := c.GetUnfenceNetwork(); f != nil {
		e.FencedNodes = k.fenced(e.GetIndex(), f.GetCidrs())
	}
	k.addMembers(e)
}

func addressesOf(r *fsmpb.RegisterNode) (all []netip.Addr) {
	for _, text := range append([]string{r.GetReplication().GetAddress()}, r.GetAddresses()...) {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// fenced returns the nodes that have an address in the CIDRs, and those that a fence that the entry began binds, sorted.
func (k *involved) fenced(index uint64, cidrs []string) (nodes []string) {
	for f := range k.state.Fences() {
		for _, h := range f.Bound {
			if f.Since == index {
				nodes = appendUnique(nodes, string(h.Node))
			}
		}
	}
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		for node, addresses := range k.addresses {
			if err == nil && slices.ContainsFunc(addresses, p.Contains) {
				nodes = appendUnique(nodes, node)
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// membersOf are the volumes of a group: as the entries so far have it, else as it is now.
func (k *involved) membersOf(id string) []string {
	if known, ok := k.members[id]; ok {
		return known
	}
	g, ok := k.state.VolumeGroup(fsm.VolumeGroupID(id))
	if !ok {
		return nil
	}
	return mapSlice(g.Members, func(id fsm.VolumeID) string { return string(id) })
}

// addMembers adds the volumes that a group had before it is changed or deleted, and those of a group whose role moved.
func (k *involved) addMembers(e *adminpb.HistoryEntry) {
	c := e.GetCommand()
	for _, r := range e.GetOutcome().GetRoleMoved() {
		for _, member := range k.membersOf(r.GetVolumeGroupId()) {
			e.Volumes = appendUnique(e.GetVolumes(), member)
		}
	}
	id := e.GetOutcome().GetVolumeGroupId()
	if id == "" {
		id = c.GetModifyVolumeGroup().GetVolumeGroupId() + c.GetDeleteVolumeGroup().GetVolumeGroupId()
	}
	if id == "" || e.GetOutcome().GetRejection() != nil {
		return
	}
	if c.GetCreateVolumeGroup() != nil {
		k.members[id] = c.GetCreateVolumeGroup().GetVolumeIds()
		return
	}
	for _, before := range k.membersOf(id) {
		e.Volumes = appendUnique(e.GetVolumes(), before)
	}
	switch {
	case c.GetModifyVolumeGroup() != nil:
		k.members[id] = c.GetModifyVolumeGroup().GetVolumeIds()
	case c.GetDeleteVolumeGroup() != nil:
		delete(k.members, id)
	}
}
