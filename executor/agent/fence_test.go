package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const fencedCIDR = "10.0.0.1/32" // the first host's

func (p *pair) fence() {
	p.t.Helper()
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_FenceNetwork{FenceNetwork: &fsmpb.FenceNetwork{Cidrs: []string{fencedCIDR}}}})
}

// fenceHolds tells whether the fence may be answered.
func (p *pair) fenceHolds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, _, rej := p.state.FenceHolds([]string{fencedCIDR}, fsm.FenceOwnerOf("controller/c1", ""))
	return done && rej == nil
}

func (p *pair) isFenced(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, _ := p.state.Node(m.node)
	return n.IsFenced()
}

// The writer's host lives, has its session and its link: its peer disconnects and goes on, the writer is
// frozen, hears that it lost, and is torn down. It takes part again after it serves again.
func TestS57_S58_AFencedWriterLosesAndItsPeerGoesOn(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	a.write(id, "acknowledged")
	p.fence()
	p.eventually("the fence holds", p.fenceHolds)
	b.stage(id, b.publish(id))
	require.True(t, has(b.replicator.DiskContent(id), "acknowledged"))
	b.write(id, "after the fence")
	p.eventually("the fenced host ended its use", func() bool { return len(p.volume(id).Teardowns) == 0 })
	primary, _ := a.replicator.Primary(id)
	require.False(t, primary)
	mounts, _ := a.mounter.leftovers()
	require.Empty(t, mounts)
	require.True(t, p.isFenced(a))

	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: []string{fencedCIDR}}}})
	require.True(t, p.isFenced(a), "S59: its session is older")
	a.connect()
	require.False(t, p.isFenced(a))
	p.waitUpToDate(id)
	require.True(t, has(a.replicator.DiskContent(id), "after the fence"))
	require.Zero(t, p.link.SplitBrains())
	b.unstage(id)
	b.unpublish(id)
	p.remove(id)
}

// A host that is fenced while nobody can be asked of its volume's other replica goes on with nothing, and
// its content stays: it is published again after the fence.
func TestS57_AFenceGivesUpNoLastCopy(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	b.crash()
	a.write(id, "alone")
	p.fence()
	p.eventually("the fence holds", p.fenceHolds)
	p.eventually("the fenced host ended its use", func() bool { return len(p.volume(id).Teardowns) == 0 })
	require.False(t, p.volume(id).ActiveReplica(a.host()).Outdated)
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: []string{fencedCIDR}}}})
	a.connect()
	a.stage(id, a.publish(id))
	require.True(t, has(a.replicator.DiskContent(id), "alone"))
	a.unstage(id)
	a.unpublish(id)
}
