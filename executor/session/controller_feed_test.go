package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// forkCounter counts the copies of its state.
type forkCounter struct {
	Member
	state *fsm.State
	forks int
}

func (m *forkCounter) View(fn func(*fsm.State) error) error { return fn(m.state) }

func (m *forkCounter) Fork() (*fsm.State, error) {
	m.forks++
	return m.state.Fork(), nil
}

// Many changes are read without the lock that Apply needs, as after a sweep's batch;
// the desired state is the same.
func TestManyChangesAreReadFromAFork(t *testing.T) {
	m := &forkCounter{state: fsm.New()}
	apply := func(index uint64, actor string, cmd *fsmpb.Command) {
		cmd.Actor, cmd.RequestId = actor, fmt.Appendf(nil, "%016d", index)
		require.NoError(t, fsm.Err(m.state.Apply(index, cmd).Outcome))
	}
	apply(1, "controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "c", IncarnationId: make([]byte, 16), FeatureLevel: fsm.Level1,
	}}})
	apply(2, "node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{NodeId: "n1", HostId: "h1", BootId: "b1", FeatureLevel: 1}}})
	for _, many := range []int{3, maxReadUnderLock, maxReadUnderLock + 1} {
		f := &feed{member: m, node: "n1", host: "h1", welcomed: true, adopted: true, incarnation: 1, incarnationID: make([]byte, 16)}
		changes := make([]fsm.Change, 0, many)
		for i := range many {
			changes = append(changes, fsm.Change{Volume: fsm.VolumeID(fmt.Sprintf("hf-00000000-0000-4000-8000-%012x", i))})
		}
		m.forks = 0
		u, err := f.readDesired(changes, false)
		require.NoError(t, err)
		require.Len(t, u.volumesGone, many)
		require.Equal(t, many > maxReadUnderLock, m.forks > 0)
		require.False(t, u.full)
	}
}
