package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newLostHost is a volume that n2 took over from n1, as staged on n2; n1 is unreachable
// and has a pending teardown.
func newLostHost(t *testing.T) *world {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	publicationRevoked1(w)
	takeover1(w)
	won := disconnectedObservation(9, standAlone)
	won.Primary = true
	w.reportCurrent(1, "n2", won)
	w.ok("node/n2", w.stage(1, "n2", 1))
	require.Equal(t, OpTeardown, w.volume(1).Operation.Kind)
	return w
}

// Limits change while an unreachable host has a pending teardown.
func TestLimitsChangeDuringATeardown(t *testing.T) {
	w := newLostHost(t)
	c := &fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 100}}
	w.twice(controller, c)
	require.Equal(t, OpTeardown, w.volume(1).Operation.Kind)
	w.report("n2", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: c.Limits}}})
	require.Equal(t, w.volume(1).Limits, w.volume(1).Replica("host-n2").Limits)
}

// An operation ends with the host that was to carry it out.
func TestNewLimitsEndWithTheHost(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	w.ok("node/n1", w.stage(1, "n1", 1))
	w.twice(controller, &fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 100}})
	require.Equal(t, OpModify, w.volume(1).Operation.Kind)
	w.loseNode("n1")
	require.Nil(t, w.volume(1).Operation)
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
}

// At feature level 1 a volume has one operation at a time.
func TestAtLevel1OperationsExcludeEachOther(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	w.ok("node/n1", w.stage(1, "n1", 1))
	w.twice(controller, &fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 100}})
	w.loseNode("n1")
	w.rejected(Busy, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
}
