package session

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// lateHost is a host with a pool that is absent at first.
type lateHost struct {
	*testHost
	present atomic.Bool
	rounds  atomic.Int64 // of telemetry
}

func (l *testCluster) newLateHost(m *testMember) *lateHost {
	h := &lateHost{testHost: l.newHost("n1", m.api.addr)}
	h.client.Register = func() *fsmpb.RegisterNode {
		r := register("n1")
		if !h.present.Load() {
			r.Pools[0].CapacityBytes = 0
		}
		return r
	}
	h.client.Telemetry = func() []executor.PoolFacts {
		h.rounds.Add(1)
		if !h.present.Load() {
			return []executor.PoolFacts{{ID: "pool-n1", Absent: true}}
		}
		return []executor.PoolFacts{{ID: "pool-n1", Free: 1 << 40, Capacity: 1 << 40}}
	}
	return h
}

// registrations are how often hosts were registered.
func (l *testCluster) registrations() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range l.log {
		if cmd.GetRegisterNode() != nil {
			n++
		}
	}
	return n
}

func (m *testMember) capacity(node fsm.NodeID) (c int64) {
	_ = m.View(func(s *fsm.State) error {
		if n, ok := s.Node(node); ok {
			c = n.Pools[0].Capacity
		}
		return nil
	})
	return c
}

// A pool that was absent while its host registered takes volumes as soon as it is there.
func TestAPoolThatAppearsIsRegisteredWithinTheSession(t *testing.T) {
	l := newTestCluster(t, 1)
	m := l.members[0]
	h := l.newLateHost(m)
	h.run(t)
	rounds := func(n int64) {
		t.Helper()
		until := h.rounds.Load() + n
		eventually(t, "the pools are measured", func() bool { return h.rounds.Load() >= until })
	}
	eventually(t, "the session is up", h.client.Connected)
	rounds(10)
	require.Equal(t, 1, l.registrations(), "there is nothing to say")
	require.Zero(t, m.capacity("n1"))

	h.present.Store(true)
	eventually(t, "the capacity is known", func() bool { return m.capacity("n1") == 1<<40 })
	l.create(volumeID, "v1")
	eventually(t, "the desired state arrives", func() bool {
		return slices.ContainsFunc(h.received(), func(u executor.Update) bool { return len(u.Volumes) == 1 })
	})
	rounds(10)
	require.Equal(t, 2, l.registrations(), "once for each change")
	require.EqualValues(t, 1, m.server.arrivals.Load(), "in one session")

	h.present.Store(false)
	rounds(10)
	require.Equal(t, 2, l.registrations(), "a pool that is absent again keeps its capacity")
}

// Of what was made before the session's last registration nothing is sent.
func TestARegistrationThatIsOutOfDateIsDropped(t *testing.T) {
	unknown := register("n1")
	unknown.Pools[0].CapacityBytes = 0
	c := &Client{registrationReady: make(chan newRegistration, 1)}
	c.Register = func() *fsmpb.RegisterNode { return register("n1") }
	facts := []executor.PoolFacts{{ID: "pool-n1", Capacity: 1 << 40}}
	c.noticeCapacity(facts)
	require.Empty(t, c.registrationReady, "there is no session")
	c.registered.Store(unknown)
	c.noticeCapacity(facts)
	c.noticeCapacity(facts)
	r := <-c.registrationReady
	require.EqualValues(t, 1<<40, r.now.GetPools()[0].GetCapacityBytes())
	c.registered.Store(register("n1")) // another session
	h := &hostSession{Client: c}       // without a stream
	require.NoError(t, h.registerAgain(r))
	c.noticeCapacity(facts)
	require.Empty(t, c.registrationReady)
}
