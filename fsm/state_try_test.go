package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A dry run answers what Apply would: later commands see what earlier ones change, facts count,
// and neither the command nor the state that was forked is changed.
func TestDryRunAnswersAsApplyWould(t *testing.T) {
	w := newWorld(t)
	before := w.s.Hash()
	free := int64(1 << 40)
	d := &DryRun{Fork: w.s.Fork(), Actor: controller, AttachFacts: func(cmd *fsmpb.Command) {
		if c := cmd.GetCreateVolume(); c != nil {
			c.Facts = []*fsmpb.PoolFact{{PoolId: "pool-n1", FreeBytes: free, Index: 1}}
		}
	}}
	first := envelope("", "unset", 0, create(1))
	for range 2 {
		given := proto.CloneOf(first)
		out, err := d.Apply(given)
		require.NoError(t, err)
		require.NoError(t, Err(out))
		require.Equal(t, volumeID(1), out.GetVolumeId())
		require.True(t, proto.Equal(first, given))
	}
	free = 0
	out, err := d.Apply(envelope("", "unset", 0, create(2)))
	require.NoError(t, err)
	require.Equal(t, NoCapacity, reasonOf(out))
	d.Actor = "viewer/v"
	out, err = d.Apply(first)
	require.NoError(t, err)
	require.Equal(t, Forbidden, reasonOf(out))
	require.Equal(t, before, w.s.Hash())
}

// Labels that have the same value under other keys are another topology, also where such a one was read shortly before.
func TestATopologyIsReadAsItWasGiven(t *testing.T) {
	var x interner
	for range 2 {
		for _, key := range []string{"zone", "rack"} {
			read, rej := x.requisite([]*fsmpb.Topology{{Segments: []*fsmpb.Label{{Key: key, Value: "a"}}}})
			require.Nil(t, rej)
			require.Equal(t, []Topology{{{Key: key, Value: "a"}}}, read)
			x.volume(&Volume{Requisite: read})
		}
	}
}

// Topologies are the same in whichever order they were asked for.
func TestTopologiesAreOrdered(t *testing.T) {
	var x interner
	term := func(value string) *fsmpb.Topology {
		return &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: "zone", Value: value}}}
	}
	read, rej := x.requisite([]*fsmpb.Topology{term("b"), term("a")})
	require.Nil(t, rej)
	require.Equal(t, []Topology{{{Key: "zone", Value: "a"}}, {{Key: "zone", Value: "b"}}}, read)
}

// A text is cut at the border of a character, and one that fits stays.
func TestClipCutsNoCharacter(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"what fits":                 {strings.Repeat("a", maxTextBytes), strings.Repeat("a", maxTextBytes)},
		"one byte more":             {strings.Repeat("a", maxTextBytes+1), strings.Repeat("a", maxTextBytes)},
		"a character over the end":  {strings.Repeat("a", maxTextBytes-1) + "é", strings.Repeat("a", maxTextBytes-1)},
		"a longer one over the end": {strings.Repeat("a", maxTextBytes-2) + "\U0001F4BE", strings.Repeat("a", maxTextBytes-2)},
		"no character at all":       {strings.Repeat("\x80", maxTextBytes+1), ""},
	} {
		require.Equal(t, tc.want, clip(tc.text), name)
	}
}

// A fork finds a volume by its name without the lookups of its origin.
func TestAForkFindsNames(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	fork := w.s.Fork()
	v, found := fork.VolumeByName("", "pvc-1")
	require.True(t, found)
	require.Equal(t, VolumeID(volumeID(1)), v.ID)
	_, found = fork.VolumeByName("", "pvc-2")
	require.False(t, found)
}
