package agent_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
)

// callAtPoint calls a function when a point is reached for the first time.
type callAtPoint struct {
	point string
	once  sync.Once
	do    func()
}

func (a *callAtPoint) Hit(point string) {
	if point == a.point {
		a.once.Do(a.do)
	}
}

// S7: the peer returns and is lost again after the last observation of the suspended device. The
// host then continues under the verdict about the first loss. That is safe, because the log
// never called the peer up to date meanwhile: the peer's host could not have continued.
func TestS7_AVerdictInUseIsNotInvalidatedByAReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testS7_AVerdictInUseIsNotInvalidatedByAReconnect)
}

func testS7_AVerdictInUseIsNotInvalidatedByAReconnect(t *testing.T) {
	p := newStoppedPair(t)
	a, b := p.hosts[0], p.hosts[1]
	ended := make(chan struct{})
	var id fsm.VolumeID
	var backUpToDate bool
	a.configure = func(c *agent.Config) {
		c.Faults = &callAtPoint{point: "resume-io.before", do: func() {
			defer close(ended)
			p.link.SetDisconnected(false)
			for end := time.Now().Add(500 * time.Millisecond); !backUpToDate && time.Now().Before(end); time.Sleep(time.Millisecond) {
				backUpToDate = p.volume(id).ActiveReplica(b.host()).UpToDate
			}
			p.link.SetDisconnected(true)
		}}
	}
	a.start(nil)
	b.start(nil)
	id = p.create(protocolC)
	a.stage(id, a.publish(id))
	a.replicator.SetHandler(nil)
	p.link.SetDisconnected(true)
	<-ended
	require.False(t, backUpToDate)
	a.write(id, "alone")
	require.False(t, p.volume(id).ActiveReplica(b.host()).UpToDate)
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	b.holdsAll(id, "alone")
	require.Zero(t, p.link.SplitBrains())
}
