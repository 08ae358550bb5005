package fsm

import (
	"cmp"
	"slices"
)

// checkSnapshots verifies S113 to S117.
func (s *State) checkSnapshots() error {
	var err error
	names, groupNames := map[scopedName]bool{}, map[scopedName]bool{}
	for n := range s.Snapshots("") {
		if name := n.liveName(); !name.isZero() && names[name] {
			err = violated("S113", "two snapshots of site %s have the name %q", name.site, name.name)
		}
		names[n.liveName()] = true
		if err = cmp.Or(err, s.checkSnapshotForm(n), s.checkSnapshotHost(n), s.checkSnapshotPhase(n)); err != nil {
			return err
		}
	}
	for g := range s.GroupSnapshots("") {
		if name := g.liveName(); !name.isZero() && groupNames[name] {
			err = violated("S113", "two group snapshots of site %s have the name %q", name.site, name.name)
		}
		groupNames[g.liveName()] = true
		if err = cmp.Or(err, s.checkGroup(g)); err != nil {
			return err
		}
	}
	for v := range s.Volumes("") {
		if err := cmp.Or(s.checkSource(v), checkGrowth(v)); err != nil {
			return err
		}
	}
	return cmp.Or(s.checkSnapshotIndexes(), s.checkOperationIDsUnique())
}

// checkSnapshotForm is S112 of snapshots.
func (s *State) checkSnapshotForm(n *Snapshot) error {
	switch {
	case !n.ID.Valid() || !n.Source.Valid() || (n.Name == "") != (n.Group != "" || n.KeptCopy != nil) || n.KeptCopy != nil && n.Group != "":
		return violated("S112", "snapshot %s of %s has no id, source or name", n.ID, n.Source)
	case n.Size <= 0 || n.Size%VolumeSizeUnit != 0:
		return violated("S112", "snapshot %s has %d bytes", n.ID, n.Size)
	case n.Created.Index > n.Modified || n.Modified > s.cluster.Index:
		return violated("S112", "snapshot %s was created at %d, changed at %d, in a state at %d", n.ID, n.Created.Index, n.Modified, s.cluster.Index)
	}
	return nil
}

// checkSnapshotHost is S105 of snapshots: a host that keeps one or must remove it is registered.
func (s *State) checkSnapshotHost(n *Snapshot) error {
	host, ok := s.Node(n.Node)
	switch {
	case n.Gone && n.Phase != SnapshotFailed:
		return violated("S105", "snapshot %s is kept by no host and not forgotten", n.ID)
	case n.Gone:
		return nil
	case !ok || host.Host != n.Host || host.State == NodeLost || host.pool(n.Pool) == nil:
		return violated("S105", "snapshot %s is kept by host %s of node %s, which is not there", n.ID, n.Host, n.Node)
	}
	return nil
}

// checkSnapshotPhase is S110 and S114: its phase says what is known of it.
func (s *State) checkSnapshotPhase(n *Snapshot) error {
	if g, ok := s.GroupSnapshot(n.Group); n.Group != "" && (!ok || n.Operation != nil || !slices.Contains(g.Members, n.ID)) {
		return violated("S114", "snapshot %s is not a member of group %s, or has an operation of its own", n.ID, n.Group)
	} else if ok {
		return nil // checkGroup checks members
	}
	var kind OperationKind
	if n.Operation != nil {
		kind = n.Operation.Kind
	}
	ended := n.Operation != nil && n.Operation.State != OpRunning
	if n.KeptCopy != nil {
		return checkKeptPhase(n, kind)
	}
	right := map[SnapshotPhase]bool{
		SnapshotTaking:   kind == OpSnapshot && !ended && n.TakenAt.IsZero(),
		SnapshotReady:    kind == 0 && !n.TakenAt.IsZero(),
		SnapshotDeleting: kind == OpDelete,
		SnapshotFailed:   kind == OpSnapshot && ended || kind == 0 && n.Gone,
	}
	if !right[n.Phase] || n.Frozen {
		return violated("S110", "snapshot %s is in phase %d, taken at %v, and has an operation of kind %d", n.ID, n.Phase, n.TakenAt, kind)
	}
	return nil
}

// checkKeptPhase: of a kept copy only a requested removal is an operation.
func checkKeptPhase(n *Snapshot, kind OperationKind) error {
	right := map[SnapshotPhase]bool{
		SnapshotTaking:   kind == 0 && n.TakenAt.IsZero(),
		SnapshotReady:    kind == 0 && !n.TakenAt.IsZero(),
		SnapshotDeleting: kind == 0 || kind == OpDelete,
	}
	if !right[n.Phase] || n.Frozen || n.Gone {
		return violated("S110", "kept copy %s is in phase %d, taken at %v, and has an operation of kind %d", n.ID, n.Phase, n.TakenAt, kind)
	}
	return nil
}

// checkGroup is S115: all snapshots of a group are taken under one freeze, or none.
func (s *State) checkGroup(g *GroupSnapshot) error {
	members := s.members(g)
	if !g.ID.Valid() || g.Name == "" || len(g.Members) == 0 || g.Attempt == 0 || g.Phase == GroupDeleting && len(members) == 0 {
		return violated("S112", "group snapshot %s is malformed", g.ID)
	}
	if len(members) != len(g.Members) && g.Phase != GroupDeleting {
		return violated("S115", "group snapshot %s lacks members", g.ID)
	}
	if (g.Operation == nil) != (g.Phase == GroupReady) {
		return violated("S110", "group snapshot %s is in phase %d and has the operation %v", g.ID, g.Phase, g.Operation)
	}
	for _, n := range members {
		taken, lost := !n.TakenAt.IsZero(), n.Phase == SnapshotFailed && n.Gone
		right := map[GroupPhase]bool{
			GroupFreezing: n.Phase == SnapshotTaking && !taken,
			GroupTaking:   n.Phase == SnapshotTaking && n.Frozen,
			GroupReady:    taken && !n.Frozen && (n.Phase == SnapshotReady || lost),
			GroupAborting: n.Phase == SnapshotFailed && !n.Frozen && !taken,
			GroupDeleting: n.Phase == SnapshotDeleting,
		}
		if n.Group != g.ID || !right[g.Phase] {
			return violated("S115", "group snapshot %s in phase %d has member %s in phase %d, frozen %t, taken %t", g.ID, g.Phase, n.ID, n.Phase, n.Frozen, taken)
		}
	}
	return nil
}

// checkSource is S116: what a volume is being made from is there until it is made.
func (s *State) checkSource(v *Volume) error {
	if _, creating := v.Phase.(Creating); !creating || v.Source.IsZero() {
		return nil
	}
	r := &v.Replicas[0]
	if n, ok := s.Snapshot(v.Source.Snapshot); ok && n.Phase == SnapshotReady && n.Host == r.Host && n.Pool == r.Pool && n.Size <= v.Size {
		return nil
	}
	if o, ok := s.Volume(v.Source.Volume); ok && o.Replica(r.Host) != nil && o.Replica(r.Host).Pool == r.Pool && o.Size <= v.Size {
		if _, ready := o.Phase.(Ready); ready {
			return nil
		}
	}
	return violated("S116", "volume %s is being made from %v, which is not there", v.ID, v.Source)
}

// checkGrowth is S117: a size that is not reached has an operation, an undersized replica is
// used by nobody until it has it, and limits are in force only where the volume is staged.
func checkGrowth(v *Volume) error {
	_, deleting := v.Phase.(Deleting) // nobody uses it any more
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if r.Size > v.Size {
			return violated("S117", "volume %s has %d bytes, its device %d", v.ID, v.Size, r.Size)
		}
		p := v.Publication(r.Node)
		if r.Undersized && (r.Size >= v.Size || r.State == ReplicaPresent && v.running(OpExpand) == nil && !deleting || p != nil && p.Host == r.Host) {
			return violated("S117", "volume %s has %d bytes on node %s, not %d, and nobody is asked to grow it before it is used", v.ID, r.Size, r.Node, v.Size)
		}
		if r.Limits != (Limits{}) && r.State != ReplicaGone && (p == nil || p.Staging == nil) {
			return violated("S117", "volume %s has limits in force on node %s, where it is not staged", v.ID, r.Node)
		}
	}
	if op := v.OperationOf(OpExpand); v.isExpanding() && (v.Operation == nil || op != nil && op.State != OpRunning) {
		return violated("S117", "volume %s is not as large as decided, and nobody is asked to grow it", v.ID)
	}
	return nil
}

// checkSnapshotIndexes builds every index of snapshots and groups anew (S113) and compares.
func (s *State) checkSnapshotIndexes() error {
	fresh := newSnapshotIndex()
	for n := range s.storedSnapshots() {
		fresh.add(n)
	}
	for g := range s.storedGroups() {
		fresh.addGroup(g)
	}
	s.volumes.Scan(func(e volumeItem) bool {
		fresh.replaceCreatingFrom(nil, e.stored)
		return true
	})
	x, y := &s.snapshots.index, &fresh
	equal := slices.Equal(x.names.Items(), y.names.Items()) && slices.Equal(x.groupNames.Items(), y.groupNames.Items()) &&
		slices.Equal(x.bySource.Items(), y.bySource.Items()) && slices.Equal(x.byNode.Items(), y.byNode.Items()) &&
		slices.Equal(x.operations.Keys(), y.operations.Keys()) && slices.Equal(x.operations.Values(), y.operations.Values()) &&
		slices.Equal(x.groupOperations.Keys(), y.groupOperations.Keys()) && slices.Equal(x.groupOperations.Values(), y.groupOperations.Values()) &&
		slices.Equal(x.creatingFrom.Items(), y.creatingFrom.Items()) && slices.Equal(x.taking.Items(), y.taking.Items()) &&
		slices.Equal(x.keptCopies.Items(), y.keptCopies.Items())
	if !equal {
		return violated("S113", "an index of snapshots is not what the records make it")
	}
	return nil
}

// checkOperationIDsUnique is S110 across volumes, snapshots and groups.
func (s *State) checkOperationIDsUnique() error {
	var err error
	s.snapshots.index.operations.Scan(func(id uint64, snapshot SnapshotID) bool {
		if v, ok := s.Operation(OperationID(id)); ok {
			err = violated("S110", "snapshot %s and volume %s both have operation %d", snapshot, v.ID, id)
		}
		return err == nil
	})
	s.snapshots.index.groupOperations.Scan(func(id uint64, group GroupSnapshotID) bool {
		_, volume := s.Operation(OperationID(id))
		if _, snapshot := s.SnapshotOperation(OperationID(id)); volume || snapshot {
			err = violated("S110", "group snapshot %s and another record both have operation %d", group, id)
		}
		return err == nil
	})
	return err
}
