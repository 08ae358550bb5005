package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyAdoptSnapshot takes in a snapshot that was taken in the part of the log that was lost, or all members of a group
// snapshot (S1). It is Ready, as it was. One that this log knows as taken stays as it is known; one whose taking this log
// saw begin only is as the lost log said. An image is never taken anew or removed for it. Repeated, it changes nothing.
func applyAdoptSnapshot(s *State, m Meta, c *fsmpb.AdoptSnapshot) (*fsmpb.Outcome, *Rejection) {
	var all []Snapshot
	for _, a := range c.GetSnapshots() {
		n, rej := s.readAdoptedSnapshot(a)
		if rej != nil {
			return nil, rej
		}
		all = append(all, n)
	}
	if c.GetGroupSnapshotId() != "" {
		return s.adoptGroupSnapshot(m, c, all)
	}
	if len(all) != 1 || all[0].Group != "" {
		return nil, Reject(Invalid, "adopt a snapshot: name one that is in no group, or a group with all its members")
	}
	n := &all[0]
	known, rej := s.checkAdoptable(n)
	if rej != nil {
		return nil, rej
	}
	if !known {
		s.putAdopted(m, n)
	}
	return &fsmpb.Outcome{SnapshotId: string(n.ID)}, nil
}

// readAdoptedSnapshot reads what one host has, and checks that it can be a record of this log.
func (s *State) readAdoptedSnapshot(a *fsmpb.AdoptedSnapshot) (Snapshot, *Rejection) {
	held := a.GetHeld()
	id := clip(held.GetManifest().GetSnapshotId())
	host, rej := s.nodeOfHost(a.GetNodeId(), a.GetHostId())
	if rej != nil {
		return Snapshot{}, Reject(rej.Reason, "adopt snapshot %s: %s", id, rej.Message)
	}
	n, rej := snapshotFromManifest(host, held.GetManifest())
	if rej != nil {
		return n, Reject(rej.Reason, "adopt snapshot %s: %s", id, rej.Message)
	}
	at := EpochFrom(held.GetAt())
	put := n
	put.Modified = s.cluster.Index
	switch err := cmp.Or(s.checkSnapshotForm(&put), s.checkSnapshotHost(&put)); {
	case held.GetRemoved() || held.GetSizeBytes() <= 0:
		return n, Reject(Precondition, "adopt snapshot %s: node %s has no image of it", id, host.ID)
	case host.pool(n.Pool) == nil:
		return n, Reject(Precondition, "adopt snapshot %s: its pool %s is not on node %s", id, clip(string(n.Pool)), host.ID)
	case err != nil:
		return n, Reject(Invalid, "adopt snapshot %s: what its host says of it is no snapshot: %v", id, err)
	case n.KeptCopy == nil && held.GetSizeBytes() < n.Size:
		return n, Reject(Precondition, "adopt snapshot %s: its image on node %s has %d bytes, and it had %d: it is not whole", id, host.ID, held.GetSizeBytes(), n.Size)
	case at.Incarnation == 0 || at.Incarnation >= s.cluster.Incarnation:
		return n, Reject(Precondition, "adopt snapshot %s: what node %s says is of incarnation %d, and this log is of %d: nothing was lost since", id, host.ID, at.Incarnation, s.cluster.Incarnation)
	}
	return n, nil
}

// checkAdoptable tells whether this log knows the snapshot as taken already, and refuses what would take another one's place.
func (s *State) checkAdoptable(n *Snapshot) (known bool, rej *Rejection) {
	existing, exists := s.Snapshot(n.ID)
	switch {
	case !exists:
		return false, s.checkAdoptedName(n)
	case existing.Host != n.Host || existing.Pool != n.Pool || existing.Source != n.Source || existing.Group != n.Group || (existing.KeptCopy == nil) != (n.KeptCopy == nil):
		return false, Reject(Incompatible, "adopt snapshot %s: this log has it on node %s in pool %s, of volume %s, and node %s has another one: look at both, and remove one of the two by hand", n.ID, existing.Node, existing.Pool, existing.Source, n.Node)
	case existing.Phase == SnapshotReady:
		return true, nil
	case existing.Phase == SnapshotDeleting:
		return false, Reject(Precondition, "adopt snapshot %s: it is being deleted, as this log was asked", n.ID)
	case existing.Gone:
		return false, Reject(Precondition, "adopt snapshot %s: host %s was recorded as lost with it", n.ID, existing.Host)
	}
	return false, s.checkAdoptedName(n)
}

func (s *State) checkAdoptedName(n *Snapshot) *Rejection {
	other, taken := s.SnapshotByName(n.Origin, n.Name)
	if n.Name == "" || !taken || other.ID == n.ID {
		return nil
	}
	return Reject(Incompatible, "adopt snapshot %s: snapshot %s has its name %q: delete that first, or leave this one as it is, an orphan", n.ID, other.ID, n.Name)
}

// putAdopted makes the record, or completes the one whose taking this log saw begin.
func (s *State) putAdopted(m Meta, n *Snapshot) {
	n.Created = m.Epoch
	if existing, known := s.Snapshot(n.ID); known {
		n.Created, n.Sequence = existing.Created, existing.Sequence
	}
	s.intern.snapshot(n)
	s.putSnapshot(*n)
}

// adoptGroupSnapshot adopts all members, which were taken at one instant, or none.
func (s *State) adoptGroupSnapshot(m Meta, c *fsmpb.AdoptSnapshot, members []Snapshot) (*fsmpb.Outcome, *Rejection) {
	g, rej := groupFromManifests(c)
	if rej != nil {
		return nil, rej
	}
	slices.SortFunc(members, func(a, b Snapshot) int { return cmp.Compare(a.Source, b.Source) })
	missing := 0
	for i := range members {
		known, rej := s.checkAdoptable(&members[i])
		if rej != nil {
			return nil, rej
		}
		if !known {
			missing++
		}
		g.Members = append(g.Members, members[i].ID)
	}
	known, rej := s.checkAdoptableGroup(&g)
	switch {
	case rej != nil:
		return nil, rej
	case known && missing > 0:
		return nil, Reject(Incompatible, "adopt group snapshot %s: this log has it with other members", g.ID)
	case known:
		return g.outcome(), nil
	}
	for i := range members {
		s.putAdopted(m, &members[i])
	}
	g.Created = m.Epoch
	if existing, exists := s.GroupSnapshot(g.ID); exists {
		g.Created, g.Attempt = existing.Created, existing.Attempt
	}
	s.putGroup(g)
	return g.outcome(), nil
}

// groupFromManifests is the group that all members say that they are of, without its members.
func groupFromManifests(c *fsmpb.AdoptSnapshot) (GroupSnapshot, *Rejection) {
	first := c.GetSnapshots()[:min(1, len(c.GetSnapshots()))]
	g := GroupSnapshot{ID: GroupSnapshotID(c.GetGroupSnapshotId()), Phase: GroupReady, Attempt: 1}
	refused := func(why string) (GroupSnapshot, *Rejection) {
		return g, Reject(Invalid, "adopt group snapshot %s: %s", clip(c.GetGroupSnapshotId()), why)
	}
	if !g.ID.Valid() || len(first) == 0 || len(c.GetSnapshots()) > maxMembers {
		return refused("it has no id, no members, or too many")
	}
	said := first[0].GetHeld().GetManifest().GetGroup()
	g.Name, g.Fingerprint, g.Origin, g.TakenAt = said.GetName(), emptyAsNil(said.GetFingerprint()), Site(said.GetOrigin()), TimeOf(said.GetTakenAt())
	if rej := cmp.Or(checkNameAndFingerprint("adopt a group snapshot", g.Name, g.Fingerprint), checkSiteText(said.GetOrigin())); rej != nil {
		return g, rej
	}
	if g.TakenAt.IsZero() || nanosOf(g.TakenAt) < 0 {
		return refused("its members do not say when it was taken")
	}
	places := map[string]bool{}
	for _, p := range said.GetMembers() {
		places[p.GetSnapshotId()] = true
	}
	for _, a := range c.GetSnapshots() {
		held := a.GetHeld().GetManifest()
		if held.GetGroup().GetGroupSnapshotId() != string(g.ID) || !places[held.GetSnapshotId()] {
			return refused("snapshot " + clip(held.GetSnapshotId()) + " is no member of it, or is named twice")
		}
		delete(places, held.GetSnapshotId())
	}
	if len(places) > 0 {
		return g, Reject(Precondition, "adopt group snapshot %s: %d of its %d members are not there: what is left of it stays as it is, orphans", g.ID, len(places), len(said.GetMembers()))
	}
	return g, nil
}

// checkAdoptableGroup tells whether this log has the group already, with these members.
func (s *State) checkAdoptableGroup(g *GroupSnapshot) (known bool, rej *Rejection) {
	existing, exists := s.GroupSnapshot(g.ID)
	if other, taken := s.GroupSnapshotByName(g.Origin, g.Name); taken && other.ID != g.ID {
		return false, Reject(Incompatible, "adopt group snapshot %s: group snapshot %s has its name %q: delete that first, or leave this one as it is, orphans", g.ID, other.ID, g.Name)
	}
	switch {
	case !exists:
		return false, nil
	case !slices.Equal(existing.Members, g.Members):
		return false, Reject(Incompatible, "adopt group snapshot %s: this log has it with other members", g.ID)
	case existing.Phase == GroupReady:
		return true, nil
	case existing.Phase == GroupDeleting:
		return false, Reject(Precondition, "adopt group snapshot %s: it is being deleted, as this log was asked", g.ID)
	}
	return false, nil
}
