package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newPlain has the plain volume 1 at site A.
func newPlain(t testing.TB) *related {
	w := newTwoSites(t, 0)
	w.readyAt("A", 1, create(1))
	return w
}

// converting is newPlain whose replication is enabled.
func newConverting(t testing.TB) *related {
	w := newPlain(t)
	w.okAt("A", enable(sourceOf(1), "B"))
	return w
}

func (w *related) conversion() *Conversion { return w.volume(1).converting() }

func (w *related) secondMade() {
	w.t.Helper()
	node := w.node(1, "B")
	w.attach(1, node, 1)
	w.report(node, volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}))
	require.True(w.t, w.conversion().OnSeed)
}

// copied is the observation of a host that the content is copied to the other one.
func (w *related) copied() {
	w.t.Helper()
	w.attach(1, w.node(1, "A"), 1)
	w.reportCurrent(1, w.node(1, "A"), ReplicaObservation{Disk: upToDate, PeerDisk: inconsistent, Connection: syncSource, UUID: 7})
}

func newConverted(t testing.TB) *related {
	w := newConverting(t)
	w.secondMade()
	w.copied()
	require.Nil(t, w.conversion())
	w.reportCurrent(1, w.node(1, "A"), inSyncObservation(7))
	w.reportCurrent(1, w.node(1, "B"), inSyncObservation(7))
	w.reportCurrent(1, w.node(1, "A"), inSyncObservation(7))
	w.reportCurrent(1, w.node(1, "B"), inSyncObservation(7))
	require.True(t, w.s.isBothUpToDate(w.volume(1)))
	return w
}

// S55, ADD-REPL-Enable-02, -03: a plain volume is converted while nobody uses it, one step after the other.
func TestS55_APlainVolumeIsConverted(t *testing.T) {
	w := newPlain(t)
	a := string(w.volume(1).Replicas[0].Node)
	w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
	w.rejectedAt("A", Precondition, enable(sourceOf(1), "B"))
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.rejectedAt("B", Precondition, enable(sourceOf(1), "A"))
	w.rejectedAt("A", NoCapacity, enable(sourceOf(1), "C"))
	w.okAt("A", enable(sourceOf(1), "B"))
	d, _ := w.s.DesiredVolume(NodeID(a), VolumeID(volumeID(1)))
	require.Nil(t, d.Replication, "nothing of it is touched yet")
	w.rejectedAt("A", Busy, publish(1, a))
	w.rejectedAt("A", Busy, &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib})
	w.rejectedAt("A", Busy, createSnapshot(1, 1))
	w.rejectedAt("A", Busy, demote(sourceOf(1)))
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.secondMade()
	require.True(t, w.desired(1, "A").Converting)
	require.True(t, w.desired(1, "A").Seed)
	require.True(t, w.desired(1, "B").SyncFromSeed)
	done, _, _ := w.s.EnableHolds(sourceOf(1))
	require.False(t, done)
	w.copied()
	require.Nil(t, w.conversion())
	require.True(t, w.replicaSync(1, a).UpToDate)
	require.False(t, w.replicaSync(1, w.node(1, "B")).UpToDate)
	done, _, _ = w.s.EnableHolds(sourceOf(1))
	require.True(t, done)
	w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
}

// S55: a conversion that cannot go on is undone, and the volume is what it was.
func TestS55_AConversionIsUndone(t *testing.T) {
	undoings := map[string]func(w *related){
		"in time": func(w *related) {
			w.twice(controller, &fsmpb.CancelConversion{VolumeId: volumeID(1), Began: w.conversion().Began})
		},
		"by an operator": func(w *related) {
			w.ok(admin, &fsmpb.CancelOperation{OperationId: uint64(w.volume(1).OperationOf(OpReplicaChange).ID)})
		},
		"by Disable": func(w *related) { w.okAt("A", disable(sourceOf(1))) },
	}
	for name, undo := range undoings {
		for stage, onSeed := range map[string]bool{"before the content's host began": false, "after that": true} {
			t.Run(name+" "+stage, func(t *testing.T) {
				w := newConverting(t)
				w.twice(controller, &fsmpb.CancelConversion{VolumeId: volumeID(1), Began: 1}) // another one
				a, b := string(w.volume(1).Replicas[0].Node), w.node(1, "B")
				minor := w.volume(1).Replication.Minor
				if onSeed {
					w.secondMade()
				}
				undo(w)
				require.Nil(t, w.s.RelationOf(w.volume(1)))
				if onSeed {
					require.True(t, w.desired(1, "A").Unconvert)
					require.False(t, w.desired(1, "B").Connect)
					w.rejectedAt("A", Busy, publish(1, a))
					w.rejectedAt("A", Busy, enable(sourceOf(1), "B"))
					w.rejectedAt("A", Busy, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
					w.copied()
					require.NotNil(t, w.conversion(), "it is being undone")
					w.fact(1, a, &fsmpb.Observation{Fact: &fsmpb.Observation_ConversionUndone{ConversionUndone: &fsmpb.ConversionUndone{}}})
				}
				v := w.volume(1)
				require.Nil(t, v.Replication)
				require.Equal(t, minor, v.Unconverted.Minor)
				w.rejected(Precondition, controller, publish(1, b))
				w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
				w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
				w.rejectedAt("A", Busy, enable(sourceOf(1), "B"))
				d, ok := w.s.DesiredVolume(NodeID(b), v.ID)
				require.True(t, ok)
				require.Equal(t, GoalRemove, d.Goal)
				w.okAt("A", &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib})
				w.report(a, volumeObservation(1, &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: 2 * gib}}))
				require.Nil(t, w.volume(1).OperationOf(OpExpand), "what is removed is not grown")
				w.report(b, volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
				require.Nil(t, w.volume(1).Unconverted)
				w.okAt("A", enable(sourceOf(1), "B"))
			})
		}
	}
}

// S55: what an undone conversion left goes with its host, and with the volume.
func TestS55_WhatAConversionLeftGoesWithItsHost(t *testing.T) {
	w := newConverting(t)
	b := w.node(1, "B")
	w.okAt("A", disable(sourceOf(1)))
	w.admin(&fsmpb.LoseNode{NodeId: b, HostId: "host-" + b, Reason: "burnt"})
	require.Nil(t, w.volume(1).Unconverted)
	require.Len(t, w.volume(1).Replicas, 1)
	w.okAt("A", enable(sourceOf(1), "B"))

	w = newConverting(t)
	a, b := string(w.volume(1).Replicas[0].Node), w.node(1, "B")
	w.okAt("A", disable(sourceOf(1)))
	w.okAt("A", &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	for _, node := range []string{a, b} {
		w.report(node, volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	}
	_, ok := w.s.Volume(VolumeID(volumeID(1)))
	require.False(t, ok)
}

// S55, S71: a host is lost in the middle of a conversion.
func TestS55_AHostIsLostInAConversion(t *testing.T) {
	for stage, onSeed := range map[string]bool{"before the content's host began": false, "after that": true} {
		t.Run("the other one "+stage, func(t *testing.T) {
			w := newConverting(t)
			a := string(w.volume(1).Replicas[0].Node)
			if onSeed {
				w.secondMade()
			}
			w.lose(1, "B")
			w.ok(controller, &fsmpb.CancelConversion{VolumeId: volumeID(1), Began: w.conversion().Began})
			if onSeed {
				w.fact(1, a, &fsmpb.Observation{Fact: &fsmpb.Observation_ConversionUndone{ConversionUndone: &fsmpb.ConversionUndone{}}})
			}
			require.Nil(t, w.volume(1).Replication)
			require.Nil(t, w.volume(1).Unconverted)
			w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
		})
		t.Run("the content's "+stage, func(t *testing.T) {
			w := newConverting(t)
			a, b := string(w.volume(1).Replicas[0].Node), w.node(1, "B")
			if onSeed {
				w.secondMade()
			}
			w.admin(&fsmpb.LoseNode{NodeId: a, HostId: "host-" + a, Reason: "burnt"})
			require.True(t, w.volume(1).isContentLost())
			require.Nil(t, w.s.RelationOf(w.volume(1)))
			w.rejectedAt("B", NotReplicated, promoteByForce(sourceOf(1)))
			w.ok(admin, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
			w.report(b, volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
			_, ok := w.s.Volume(VolumeID(volumeID(1)))
			require.False(t, ok)
		})
		t.Run("the content's, being undone, "+stage, func(t *testing.T) {
			w := newConverting(t)
			a, b := string(w.volume(1).Replicas[0].Node), w.node(1, "B")
			if onSeed {
				w.secondMade()
			}
			w.okAt("A", disable(sourceOf(1)))
			w.admin(&fsmpb.LoseNode{NodeId: a, HostId: "host-" + a, Reason: "burnt"})
			w.report(b, volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
			if !w.volume(1).isFailed() {
				t.Fatal("nothing is left of its content, and it did not fail")
			}
			w.ok(admin, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
		})
	}
}

// S55: the second device cannot be made.
func TestS55_TheSecondDeviceCannotBeMade(t *testing.T) {
	w := newConverting(t)
	a, b := string(w.volume(1).Replicas[0].Node), w.node(1, "B")
	w.report(b, volumeObservation(1, &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{
		Step: "create", Error: "no space", Final: true, NoSpace: true, OperationId: uint64(w.volume(1).OperationOf(OpReplicaChange).ID),
	}}))
	w.report(b, volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	require.NotNil(t, w.conversion())
	w.ok(controller, &fsmpb.CancelConversion{VolumeId: volumeID(1), Began: w.conversion().Began})
	require.Nil(t, w.volume(1).Replication)
	require.Nil(t, w.volume(1).Unconverted)
	w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
}
