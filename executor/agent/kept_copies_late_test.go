package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// S49, S50: the answer to a proposal may come before the desired state that follows from it. What was kept before a
// synchronisation is asked for now and then, not as often as a host may take steps.
func TestS50_ALateUpdateDoesNotRepeatTheCopy(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createBetweenSites()
	a.primaryAt(id)
	a.write(id, "everywhere")
	asked := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, cmd := range p.applied {
			if cmd.GetKeepReplica().GetBeforeSync() {
				n++
			}
		}
		return n
	}
	b.mu.Lock()
	b.beforeKeep = func() { b.hold = true }
	b.mu.Unlock()
	p.link.SetDisconnected(true)
	a.write(id, "at A only")
	p.eventually("it is asked for", func() bool { return asked() > 0 })
	time.Sleep(500 * time.Millisecond)
	n := asked()
	p.eventually("it is asked for again, as an operator may have made room", func() bool { return asked() > n })
	b.connect()
	require.LessOrEqual(t, n, 3, "other desired state may come meanwhile")
}
