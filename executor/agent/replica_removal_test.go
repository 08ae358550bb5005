package agent_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
)

// holdAt holds whoever passes a point first, until release is closed.
type holdAt struct {
	point         string
	once          sync.Once
	held, release chan struct{}
}

func (f *holdAt) Hit(point string) {
	if point == f.point {
		f.once.Do(func() {
			close(f.held)
			<-f.release
		})
	}
}

// S71, S14: the removal is taken back while the host is between two steps of it: what the host has been told since counts,
// and the last copy, and its LUKS header, stay.
func TestS71_ARemovalThatIsTakenBackInBetweenEnds(t *testing.T) {
	p := newStoppedPair(t)
	encrypt(p)
	a, b := p.hosts[0], p.hosts[1]
	f := &holdAt{point: "luks-wipe.before", held: make(chan struct{}), release: make(chan struct{})}
	configure := b.configure
	b.configure = func(c *agent.Config) {
		if configure != nil {
			configure(c)
		}
		c.Faults = f
	}
	a.start(nil)
	b.start(nil)
	id := p.giveUpSecond()
	select {
	case <-f.held:
	case <-time.After(pairTimeout):
		require.Fail(t, "the point is not passed")
	}
	p.loseFirst()
	p.eventually("its host is told to keep it", func() bool { return b.e.DesiredGoal(id) == fsm.GoalKeep })
	close(f.release)
	time.Sleep(2 * time.Second)
	require.Equal(t, 1, b.pool.Images(), "the last copy")
}
