package fsm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// changeSnapshot replaces the record of a snapshot, without a command.
func (w *world) changeSnapshot(n int, change func(*Snapshot)) {
	w.t.Helper()
	snap := *w.snapshot(n)
	change(&snap)
	w.s.putSnapshot(snap)
}

func TestSnapshotCreation(t *testing.T) {
	id := snapshotID(1)
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		done   bool
		want   Reason
		says   string
	}{
		"under way":                {change: func(*Snapshot) {}},
		"taken":                    {change: func(n *Snapshot) { n.Phase = SnapshotReady }, done: true},
		"deleted meanwhile":        {change: func(n *Snapshot) { n.Phase = SnapshotDeleting }, want: Busy, says: "create snapshot " + id + ": it was deleted meanwhile; retry"},
		"failed and being removed": {change: func(n *Snapshot) { *n = n.asFailedCreate(NoCapacity, "full") }, want: NoCapacity, says: "create snapshot " + id + ": full"},
		"failed for a reason": {change: func(n *Snapshot) {
			n.Phase, n.Operation = SnapshotFailed, &Operation{State: OpFailed, Reason: Precondition, LastError: "no"}
		}, want: Precondition, says: `create snapshot "snap-1": no`},
		"failed without a reason": {change: func(n *Snapshot) {
			n.Phase, n.Operation = SnapshotFailed, &Operation{State: OpFailed, LastError: "I/O error"}
		}, want: noReason, says: `create snapshot "snap-1": I/O error`},
		"its host was lost": {change: func(n *Snapshot) { n.Phase, n.Operation, n.Error = SnapshotFailed, nil, "lost" }, want: Busy, says: `create snapshot "snap-1": lost; retry`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.ok(controller, createSnapshot(1, 1))
			w.changeSnapshot(1, tc.change)
			n, rej := w.s.SnapshotCreation(SnapshotID(id))
			require.Equal(t, tc.done, n != nil)
			requireRejected(t, tc.want, tc.says, rej)
		})
	}
}

// S18: nobody waits for the removal on a host that cannot be reached. A member's failure is its
// group's.
func TestSnapshotRemoval(t *testing.T) {
	failed := &Operation{ID: 12, State: OpFailed, LastError: "busy"}
	for name, tc := range map[string]struct {
		change      func(*Snapshot)
		ofGroup     *Operation
		unreachable bool
		done        bool
		says        string
	}{
		"not begun":               {change: func(n *Snapshot) { n.Phase = SnapshotReady }},
		"a host is at work":       {change: func(*Snapshot) {}},
		"removed":                 {change: func(n *Snapshot) { n.Gone = true }, done: true},
		"an unreachable host":     {change: func(*Snapshot) {}, unreachable: true, done: true},
		"a reachable host failed": {change: func(n *Snapshot) { n.Operation = failed }, says: "delete snapshot " + snapshotID(100) + ": node n1 failed to remove it: busy; retry op-12 once this is mended"},
		"its group failed":        {change: func(*Snapshot) {}, ofGroup: failed, says: "delete group snapshot " + groupID(1) + ": busy; retry op-12 once this is mended"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.takeGroup(1, 1)
			w.setUnreachable("n1", tc.unreachable)
			w.changeSnapshot(100, func(n *Snapshot) { n.Phase = SnapshotDeleting; tc.change(n) })
			g := *w.groupSnapshot(1)
			g.Operation = tc.ofGroup
			w.s.putGroup(g)
			done, rej := w.s.GroupRemoval(g.ID, g.Members)
			require.Equal(t, tc.done, done)
			requireRejected(t, noReason, tc.says, rej)
			if tc.ofGroup != nil {
				return
			}
			done, rej = w.s.SnapshotRemoval(SnapshotID(snapshotID(100)))
			require.Equal(t, tc.done, done)
			requireRejected(t, noReason, tc.says, rej)
		})
	}
}

func TestGroupCreation(t *testing.T) {
	id := groupID(1)
	for name, tc := range map[string]struct {
		change func(*GroupSnapshot)
		done   bool
		want   Reason
		says   string
	}{
		"under way":                {change: func(*GroupSnapshot) {}},
		"taken":                    {change: func(g *GroupSnapshot) { g.Phase = GroupReady }, done: true},
		"being deleted":            {change: func(g *GroupSnapshot) { g.Phase = GroupDeleting }, want: Busy, says: "create group snapshot " + id + ": it was deleted meanwhile; retry"},
		"aborted":                  {change: func(g *GroupSnapshot) { g.Phase, g.Error, g.Operation = GroupAborting, "thawed", nil }, want: Busy, says: `create group snapshot "group-1": thawed`},
		"aborted without a reason": {change: func(g *GroupSnapshot) { g.Phase, g.Error = GroupAborting, "thawed" }, want: Busy, says: `create group snapshot "group-1": thawed`},
		"aborted for a reason": {change: func(g *GroupSnapshot) {
			g.Phase, g.Error, g.Operation = GroupAborting, "full", &Operation{Reason: NoCapacity}
		}, want: NoCapacity, says: `create group snapshot "group-1": full`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.ok(controller, createGroup(1, 1))
			g := *w.groupSnapshot(1)
			tc.change(&g)
			w.s.putGroup(g)
			made, rej := w.s.GroupCreation(GroupSnapshotID(id))
			require.Equal(t, tc.done, made != nil)
			requireRejected(t, tc.want, tc.says, rej)
		})
	}
	w := newWorld(t)
	w.s.recentFailures.add(id, &Operation{LastError: "full"})
	_, rej := w.s.GroupCreation(GroupSnapshotID(id))
	requireRejected(t, Busy, "create group snapshot "+id+": full", rej)
}

// CSI-GRP-DeleteVolumeGroupSnapshot-06, CSI-GRP-GetVolumeGroupSnapshot-05.
func TestCheckMembers(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	g := w.takeGroup(1, 1, 2)
	reversed := []SnapshotID{g.Members[1], g.Members[0]}
	for name, tc := range map[string]struct {
		given []SnapshotID
		want  Reason
	}{
		"all":                    {given: g.Members},
		"in another order":       {given: reversed},
		"none":                   {want: Invalid},
		"one is left out":        {given: g.Members[:1], want: Invalid},
		"one twice":              {given: []SnapshotID{g.Members[0], g.Members[0]}, want: Invalid},
		"one that is no member":  {given: append(slices.Clone(g.Members), "hs-x"), want: Invalid},
		"another in one's place": {given: []SnapshotID{g.Members[0], "hs-x"}, want: Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, g.CheckMembers(tc.given).Why())
			members, rej := w.s.MembersToDelete(g.ID, tc.given)
			require.Equal(t, tc.want, rej.Why())
			require.Equal(t, g.Members, members)
		})
	}
	_, rej := w.s.KnownGroupSnapshot(g.ID)
	require.Nil(t, rej)
	members, rej := w.s.MembersToDelete(GroupSnapshotID(groupID(2)), nil)
	require.Empty(t, members)
	require.Nil(t, rej)
	deleting := *g
	deleting.Phase = GroupDeleting
	w.s.putGroup(deleting)
	members, rej = w.s.MembersToDelete(g.ID, nil)
	require.Equal(t, g.Members, members, "a delete that is under way is joined")
	require.Nil(t, rej)
	_, rej = w.s.KnownGroupSnapshot(g.ID)
	require.Equal(t, NotFound, rej.Why())
}

// S49: the kept copy of an outdated replica is no snapshot that a caller requested.
func TestS49_KeptCopiesAreNotListed(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	for n, source := range []int{1, 2, 1, 1} {
		w.takeSnapshot(n+1, source)
	}
	w.changeSnapshot(3, func(n *Snapshot) { n.KeptCopy = &KeptCopy{Attachment: 1} })
	w.changeSnapshot(4, func(n *Snapshot) { n.Phase = SnapshotDeleting })
	listed := func(source int, after string) (ids []string) {
		from := VolumeID("")
		if source != 0 {
			from = VolumeID(volumeID(source))
		}
		for n := range w.s.KnownSnapshots(from, SnapshotID(after)) {
			ids = append(ids, string(n.ID))
		}
		return ids
	}
	require.Equal(t, []string{snapshotID(1), snapshotID(2)}, listed(0, ""))
	require.Equal(t, []string{snapshotID(2)}, listed(0, snapshotID(1)))
	require.Equal(t, []string{snapshotID(1)}, listed(1, ""))
	_, rej := w.s.KnownSnapshot(SnapshotID(snapshotID(3)))
	require.Nil(t, rej, "by its id it is found")
	_, rej = w.s.KnownSnapshot(SnapshotID(snapshotID(4)))
	require.Equal(t, NotFound, rej.Why())
}

func TestSnapshotForMap(t *testing.T) {
	for name, tc := range map[string]struct {
		change       func(*Snapshot) // of snapshot 1, the base
		base, target int
		want         Reason
	}{
		"what it has":            {target: 2},
		"what differs":           {base: 1, target: 2},
		"of another volume":      {base: 3, target: 2, want: Invalid},
		"an unknown target":      {base: 1, target: 9, want: NotFound},
		"an unknown base":        {base: 9, target: 1, want: NotFound},
		"a missing target first": {base: 9, target: 1, change: func(n *Snapshot) { n.Missing = true }, want: Precondition},
		"a missing base":         {base: 1, target: 2, change: func(n *Snapshot) { n.Missing = true }, want: Precondition},
		"in another pool":        {base: 1, target: 2, change: func(n *Snapshot) { n.Pool = "pool-other" }, want: Precondition},
		"being deleted":          {base: 1, target: 2, change: func(n *Snapshot) { n.Phase = SnapshotDeleting }, want: NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			w.ready(2, create(2))
			w.takeSnapshot(1, 1)
			w.takeSnapshot(2, 1)
			w.takeSnapshot(3, 2)
			if tc.change != nil {
				w.changeSnapshot(1, tc.change)
			}
			base := SnapshotID("")
			if tc.base != 0 {
				base = SnapshotID(snapshotID(tc.base))
			}
			n, rej := w.s.SnapshotForMap(base, SnapshotID(snapshotID(tc.target)))
			require.Equal(t, tc.want, rej.Why())
			if tc.want == 0 {
				require.Equal(t, SnapshotID(snapshotID(tc.target)), n.ID)
			}
		})
	}
}
