package fsm

import (
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
