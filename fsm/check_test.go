package fsm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// TestCheckFindsWhatIsPlanted: an invariant that cannot fail proves nothing.
func TestCheckFindsWhatIsPlanted(t *testing.T) {
	for invariant, plant := range map[string]func(*world){
		"S101": func(w *world) { w.s.lookups.names[scopedName{name: "pvc-1"}] = uuid{} },
		"S102": func(w *world) {
			for key := range w.s.lookups.answers {
				w.s.lookups.answers[key] = &answer{}
			}
		},
		"S103": withVolume(func(v *Volume) {
			*v = v.withPublication(Publication{Node: "n1", Host: "host-n1", Epoch: Epoch{1, 1 << 40}})
		}),
		"S104": withVolume(func(v *Volume) {
			*v = v.withPublication(Publication{Node: "n1", Host: "host-n1", Epoch: Epoch{1, 1}, Targets: []Target{{Path: "/target"}}})
		}),
		"S105": func(w *world) {
			n := *w.snapshot(1)
			n.Host = "another"
			w.s.storeSnapshot(n)
		},
		"S108": func(w *world) { w.s.index.reserve("pool-n1", 1, poolUse{}) },
		"S109": withVolume(func(v *Volume) { v.Format.FSType = ext4 }),
		"S110": func(w *world) {
			n := *w.snapshot(1)
			n.Operation = &Operation{ID: 3, Kind: OpSnapshot, State: OpRunning}
			w.s.storeSnapshot(n)
		},
		"S111": func(w *world) { w.s.sum[0]++ },
		"S112": withVolume(func(v *Volume) { v.Size++ }),
		"S113": func(w *world) { w.s.snapshots.index.names.Delete(scopedName{name: "snap-1"}) },
		"S114": func(w *world) {
			n := *w.snapshot(100)
			n.Operation = &Operation{ID: 3, Kind: OpSnapshot, State: OpRunning}
			w.s.storeSnapshot(n)
		},
		"S115": func(w *world) {
			n := *w.snapshot(100)
			n.Phase = SnapshotTaking
			w.s.storeSnapshot(n)
		},
		"S116": func(w *world) {
			w.s.Apply(w.index+1, envelope(controller, "clone", w.index, createFrom(9, fromSnapshot(1))))
			n := *w.snapshot(1)
			n.Phase, n.Operation = SnapshotDeleting, &Operation{ID: 3, Kind: OpDelete, State: OpRunning}
			w.s.storeSnapshot(n)
		},
		"S117": withVolume(func(v *Volume) { v.Size += VolumeSizeUnit }),
		"S118": func(w *world) { w.s.cluster.Sweeps = []Sweep{{}} },
	} {
		t.Run(invariant, func(t *testing.T) {
			w := twoHosts(t)
			w.takeSnapshot(1, 1)
			w.takeGroup(1, 1, 2)
			require.NoError(t, w.s.Check())
			plant(w)
			require.ErrorContains(t, w.s.Check(), "invariant "+invariant+":")
		})
	}
}

// TestCheckFindsWhatIsPlantedInAReplicatedVolume does the same for replicas.
func TestCheckFindsWhatIsPlantedInAReplicatedVolume(t *testing.T) {
	for invariant, plant := range map[string]func(*Volume){
		"S151": func(v *Volume) { v.Replication.Forced = &ForcedPrimary{Host: "host-n3"} },
		"S151: volume " + volumeID(1) + " has a grant of index": func(v *Volume) { v.Replication.LastGrantIndex++ },
		"S152": func(v *Volume) { v.Replication.Port = lastPort + 1 },
		"S153": func(v *Volume) { v.ActiveReplicas()[1].Outdated = true },
		"S154": func(v *Volume) { v.ActiveReplicas()[0].Outdated, v.ActiveReplicas()[0].UpToDate = true, false },
		"S155": func(v *Volume) { v.ActiveReplicas()[0].InSyncUUID = RecordedUUID{Value: 7, Index: 1} },
		"S156": func(v *Volume) { v.ActiveReplicas()[1].ReplicaSync = nil },
		"S157": func(v *Volume) { v.Replication.InitialSyncIndex = 0 },
		"S158": func(v *Volume) { v.ActiveReplicas()[1].Boot = "boot-0" },
		"S159": func(v *Volume) { v.Replication = nil },
		"S160": func(v *Volume) { v.Replication.Leaving = []HostID{"host-n9"} },
	} {
		t.Run(invariant, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			require.NoError(t, w.s.Check())
			withVolume(plant)(w)
			require.ErrorContains(t, w.s.Check(), "invariant "+invariant)
		})
	}
}

// withVolume plants a change of volume 1 past every rule.
func withVolume(plant func(*Volume)) func(*world) {
	return func(w *world) {
		v := *w.volume(1)
		if v.Replication != nil {
			v = v.withReplication()
		}
		plant(&v)
		w.s.storeVolume(&volumeChange{}, v)
	}
}

// S101, S102: an entry of a lookup that leads to nothing is found too.
func TestCheckFindsALookupOfNothing(t *testing.T) {
	for name, plant := range map[string]func(*lookups){
		"a name":    func(l *lookups) { l.names[scopedName{name: "pvc-9"}] = uuid{hi: 9} },
		"a request": func(l *lookups) { l.answers[answerKey{}] = &answer{} },
	} {
		w := twoHosts(t)
		require.NoError(t, w.s.Check())
		plant(w.s.lookups)
		require.ErrorContains(t, w.s.Check(), "are known", name)
	}
}

// S109: a format names its filesystem in the phases that have one, and one that is being made its epoch.
func TestS109_FormatsThatCannotBe(t *testing.T) {
	epoch := Epoch{1, 1}
	for name, f := range map[string]Format{
		"made without a type":      {Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSUUID: "uuid"},
		"made without a uuid":      {Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: ext4},
		"being made without type":  {Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, FSUUID: "uuid", Epoch: epoch},
		"being made without uuid":  {Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, FSType: ext4, Epoch: epoch},
		"being made without epoch": {Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, FSType: ext4, FSUUID: "uuid"},
		"raw with a type":          {Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW, FSType: ext4},
		"raw with a uuid":          {Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW, FSUUID: "uuid"},
		"of no phase":              {},
	} {
		w := twoHosts(t)
		withVolume(func(v *Volume) { v.Format = f })(w)
		require.ErrorContains(t, w.s.Check(), "invariant S109:", name)
	}
}

// S112, S115: a group has its members, and only one that is being deleted may have lost some of them, but not all.
func TestCheckFindsAGroupWithoutMembers(t *testing.T) {
	for phase, want := range map[GroupPhase]string{GroupReady: "invariant S115:", GroupDeleting: "invariant S112:"} {
		w := twoHosts(t)
		g := *w.takeGroup(1, 1, 2)
		for _, id := range g.Members {
			w.s.removeSnapshot(id)
		}
		g.Phase = phase
		w.s.storeGroup(g)
		require.ErrorContains(t, w.s.checkGroup(&g), want)
	}
}

// S112: a volume has a phase, an id and a name.
func TestCheckFindsAVolumeThatLacksOne(t *testing.T) {
	for name, plant := range map[string]func(*Volume){
		"a phase": func(v *Volume) { v.Phase = nil },
		"an id":   func(v *Volume) { v.ID = "another" },
		"a name":  func(v *Volume) { v.Name = "" },
	} {
		w := twoHosts(t)
		v := *w.volume(1)
		require.NoError(t, w.s.checkForm(&v))
		plant(&v)
		require.ErrorContains(t, w.s.checkForm(&v), "has no phase, id or name", name)
	}
}

// S110: a volume has at most one operation of a kind, and they are in order of their kinds.
func TestCheckFindsTwoOperationsOfOneKind(t *testing.T) {
	w := newReplicated(t, protocolC)
	v := *w.volume(1)
	v.Operation = &Operation{ID: 3, Kind: OpExpand, State: OpRunning}
	for kind, says := range map[OperationKind]string{OpTeardown: "a malformed operation op-4", OpExpand: "a malformed operation op-4", OpModify: ""} {
		v.OtherOperations = []Operation{{ID: 4, Kind: kind, State: OpRunning}}
		if err := w.s.checkOperation(&v); says != "" {
			require.ErrorContains(t, err, says, "kind %d", kind)
		} else {
			require.NoError(t, err)
		}
	}
}

// S110: a snapshot is being taken only while its operation runs.
func TestCheckFindsASnapshotThatNoOperationTakes(t *testing.T) {
	for name, op := range map[string]*Operation{
		"no operation":        nil,
		"one that failed":     {ID: 3, Kind: OpSnapshot, State: OpFailed},
		"one of another kind": {ID: 3, Kind: OpDelete, State: OpRunning},
	} {
		w := twoHosts(t)
		n := *w.takeSnapshot(1, 1)
		n.Phase, n.TakenAt, n.Operation = SnapshotTaking, time.Time{}, &Operation{ID: 3, Kind: OpSnapshot, State: OpRunning}
		require.NoError(t, w.s.checkSnapshotPhase(&n))
		n.Operation = op
		require.ErrorContains(t, w.s.checkSnapshotPhase(&n), "invariant S110:", name)
	}
}
