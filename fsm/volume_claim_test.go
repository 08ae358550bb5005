package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func limitedTo(limits *fsmpb.Limits) *fsmpb.CreateVolume {
	return changed(1, func(c *fsmpb.CreateVolume) { c.Limits = limits })
}

// S73, CSI-EXT-Modify-09: what is asked again is compared with what was asked, not with
// what was made of it since.
func TestCreateVolumeAgainAfterItsLimitsWereModified(t *testing.T) {
	for name, requested := range map[string]*fsmpb.Limits{"of limits": {ReadIops: 7}, "of none": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, limitedTo(requested))
			for n := range uint64(3) {
				w.twice(controller, modifyVolume(1, 1, &fsmpb.Limits{ReadIops: 100 + n}))
				require.Equal(t, volumeID(1), w.twice(controller, limitedTo(requested)).GetVolumeId())
				w.rejected(Incompatible, controller, limitedTo(&fsmpb.Limits{ReadIops: 100 + n}))
				answered(t, w.s, limitedTo(requested))
				notAnswered(t, w.s, Incompatible, limitedTo(&fsmpb.Limits{ReadIops: 100 + n}))
			}
			require.Equal(t, requested.GetReadIops(), restored(t, w.s).volumeOf(volumeID(1)).InitialLimits.ReadIOPS)
		})
	}
}

// S72: at level 1 the decision and the record are those of the build that made it.
func TestAtLevel1LimitsAreComparedAsTheyAre(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, limitedTo(&fsmpb.Limits{ReadIops: 7}))
	w.twice(controller, modifyVolume(1, 1, &fsmpb.Limits{ReadIops: 8}))
	require.Nil(t, w.volume(1).InitialLimits)
	w.rejected(Incompatible, controller, limitedTo(&fsmpb.Limits{ReadIops: 7}))
	w.twice(controller, limitedTo(&fsmpb.Limits{ReadIops: 8}))
}

// A claim is recorded, updated when it changes, and decides nothing.
func TestTheClaimOfAVolumeIsKept(t *testing.T) {
	w := newWorld(t)
	first := &fsmpb.Claim{Name: "data", Namespace: "shop", Volume: "pvc-1"}
	claimed := func(c *fsmpb.Claim) *fsmpb.CreateVolume {
		return changed(1, func(v *fsmpb.CreateVolume) { v.Claim = c })
	}
	w.ready(1, claimed(first))
	require.Equal(t, &Claim{"data", "shop", "pvc-1"}, w.volume(1).Claim)
	for _, other := range []*fsmpb.Claim{first, nil, {Name: "other"}} {
		w.twice(controller, claimed(other))
		require.Equal(t, &Claim{"data", "shop", "pvc-1"}, w.volume(1).Claim, "a repetition changes nothing")
	}
	renamed := modifyVolume(1, 0, nil)
	renamed.Claim = &fsmpb.Claim{Name: "data2", Namespace: "shop", Volume: "pvc-1"}
	w.twice(controller, renamed)
	require.Equal(t, "data2", restored(t, w.s).volumeOf(volumeID(1)).Claim.Name)
	w.twice(controller, modifyVolume(1, 1, &fsmpb.Limits{ReadIops: 1}))
	require.Equal(t, "data2", w.volume(1).Claim.Name)
	renamed.Claim.Name = strings.Repeat("x", maxIDBytes+1)
	w.rejected(Invalid, controller, renamed)
	require.Equal(t, Level2, LeastLevel(&fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: claimed(first)}}))
	require.Equal(t, Level1, LeastLevel(&fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: claimed(nil)}}))
}

func (s *State) volumeOf(id string) *Volume {
	v, _ := s.Volume(VolumeID(id))
	return v
}
