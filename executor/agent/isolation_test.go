package agent_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func frozenIsolated(c *fsmpb.EnableReplication) { c.FreezeIsolated = true }

// newIsolatable is a pair of sites whose hosts know when they reach no controller.
func newIsolatable(t *testing.T) *pair {
	p := newStoppedSites(t)
	for _, m := range p.hosts {
		configure := m.configure
		m.configure = func(c *agent.Config) {
			configure(c)
			c.NodeTimeout = 10 * time.Millisecond
			c.Reached = func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.connected
			}
		}
		m.start(nil)
	}
	return p
}

// isolatedPrimary is a volume whose primary reaches neither its peer nor a controller, and is frozen.
func isolatedPrimary(p *pair) fsm.VolumeID {
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites(frozenIsolated)
	a.primaryAt(id)
	a.write(id, "everywhere")
	p.link.SetDisconnected(true)
	a.write(id, "at A only")
	p.eventually("B is outdated", func() bool { return p.volume(id).ActiveReplica(b.host()).Outdated })
	a.disconnect()
	p.eventually("A is frozen", func() bool { return a.replicator.Steps("suspend-io") > 0 })
	return id
}

func (m *member) requireFrozen(id fsm.VolumeID) {
	m.t.Helper()
	acknowledged, err := m.replicator.Write(id, "while it is frozen")
	require.NoError(m.t, err)
	require.False(m.t, acknowledged)
}

// S45: a primary that may go on without its peer suspends its I/O when it reaches no controller either, and resumes by the
// log's word only: also where its process was started again meanwhile, and whatever its peer does.
func TestS45_AnIsolatedPrimaryIsFrozen(t *testing.T) {
	t.Parallel()
	p := newIsolatable(t)
	a := p.hosts[0]
	id := isolatedPrimary(p)
	a.requireFrozen(id)
	p.link.SetDisconnected(false) // its peer alone does not say that it may go on
	a.requireFrozen(id)
	require.NoError(t, a.e.Shutdown(t.Context()))
	a.requireFrozen(id)
	a.start(nil)
	a.write(id, "and on")
	p.waitUpToDate(id)
	require.Zero(t, p.link.SplitBrains())
	p.stopUsing(id, a)
}

// S45: a process that starts while no controller can be reached freezes what its record says, and nothing else.
func TestS45_AProcessThatStartsIsolatedFreezes(t *testing.T) {
	t.Parallel()
	for name, freezes := range map[string]bool{"what is to be frozen": true, "not what is not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIsolatable(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.createBetweenSites(func(c *fsmpb.EnableReplication) { c.FreezeIsolated = freezes })
			a.primaryAt(id)
			p.link.SetDisconnected(true)
			a.write(id, "at A only")
			p.eventually("B is outdated", func() bool { return p.volume(id).ActiveReplica(b.host()).Outdated })
			a.stop()
			require.Zero(t, a.replicator.Steps("suspend-io"))
			var looked atomic.Int32
			configure := a.configure
			a.configure = func(c *agent.Config) {
				configure(c)
				c.Reached = func() bool { looked.Add(1); return false }
			}
			a.startIsolated()
			p.eventually("it looked twice", func() bool { return looked.Load() > 2 })
			p.eventually("it is frozen if it is to be", func() bool { return (a.replicator.Steps("suspend-io") > 0) == freezes })
		})
	}
}

// S45, S9: an isolated primary that lost is torn down while it is frozen; its writers get errors.
func TestS45_AFrozenPrimaryThatLostIsTornDown(t *testing.T) {
	t.Parallel()
	p := newIsolatable(t)
	a, b := p.hosts[0], p.hosts[1]
	id := isolatedPrimary(p)
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "at B only")
	a.requireFrozen(id)
	p.link.SetDisconnected(false)
	a.connect()
	a.isApart(id)
	mounts, _ := a.mounter.leftovers()
	require.Empty(t, mounts)
	require.False(t, has(a.replicator.DiskContent(id), "while it is frozen"))
	a.resync(id, false)
	p.waitUpToDate(id)
	require.Zero(t, p.link.SplitBrains())
}

// S52: a verdict that is held back is asked for again, with an id of its own and a new observation, by the handler and by
// the process itself, until there is one.
func TestS52_APendingVerdictIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, handled := range map[string]bool{"by the handler": true, "by the process alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			a := p.hosts[0]
			id := p.create(protocolC)
			a.stage(id, a.publish(id))
			if !handled {
				a.replicator.SetHandler(nil)
			}
			ids := map[string]bool{}
			a.mu.Lock()
			a.answer = func(cmd *fsmpb.Command) *fsmpb.Outcome {
				if cmd.GetOutdate() == nil || len(ids) == 2 {
					return nil
				}
				ids[string(cmd.GetRequestId())] = true
				return &fsmpb.Outcome{VolumeId: string(id), Verdict: fsmpb.Verdict_VERDICT_PENDING, Generation: cmd.GetOutdate().GetGeneration()}
			}
			a.mu.Unlock()
			p.link.SetDisconnected(true)
			a.write(id, "alone")
			a.mu.Lock()
			require.Len(t, ids, 2)
			a.mu.Unlock()
			p.link.SetDisconnected(false)
			p.waitUpToDate(id)
		})
	}
}
