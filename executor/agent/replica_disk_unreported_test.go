package agent_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S67: the failure of a disk that nobody reported, because its process was dead and the log away,
// until its host lost its power. Its peer's disk tells: it went on in a generation of its own
// without anybody's permission.
func TestS67_AFailureThatNobodyReportedIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		broken     int  // the host whose disk fails
		bothCrash  bool // the other host loses its power as well
		brokenLast bool // the host whose disk failed is started last
	}{
		"under the secondary":                       {broken: 1},
		"under the primary":                         {broken: 0},
		"under the secondary, both lose power":      {broken: 1, bothCrash: true},
		"under the secondary, which returns last":   {broken: 1, bothCrash: true, brokenLast: true},
		"under the primary, both lose power":        {broken: 0, bothCrash: true},
		"under the primary, which returns last too": {broken: 0, bothCrash: true, brokenLast: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			broken, whole := p.hosts[tc.broken], p.hosts[1-tc.broken]
			id := p.create(protocolC)
			p.failUnreported(id, broken)
			if tc.bothCrash {
				whole.crash()
			}
			p.setDown(false)
			p.restartAfter(tc.bothCrash, tc.brokenLast, broken, whole)
			p.waitUpToDate(id)
			p.eventually("the failure is over", func() bool { return p.volume(id).ActiveReplica(broken.host()).DiskFailed == 0 })
			broken.holdsAll(id, "first", "second", "meanwhile")
			require.Equal(t, 1, broken.replicator.Steps("remake-metadata"))
			require.Zero(t, whole.replicator.Steps("remake-metadata"))
		})
	}
}

// failUnreported writes by the first host, and fails the disk of one of them whose process is dead while the log is
// away; then that host loses its power. The log is still away.
func (p *pair) failUnreported(id fsm.VolumeID, broken *member) {
	a := p.hosts[0]
	a.stage(id, a.publish(id))
	a.write(id, "first")
	a.write(id, "second")
	p.waitUpToDate(id)
	for _, m := range p.hosts {
		p.eventually("it recorded what both have", func() bool { return m.sharedUUID(id) != 0 })
	}
	broken.stop()
	p.setDown(true)
	broken.replicator.FailDisk(id)
	a.write(id, "meanwhile")
	broken.crash()
}

// S67: the log learns of the failure when the next attachment of that disk is committed and not made yet.
// What was committed is for the disk as it was, and not used for the one that was made blank.
func TestS67_AnAttachmentOfBeforeTheRemakeIsNotUsed(t *testing.T) {
	p := newPair(t)
	a, broken := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	p.failUnreported(id, broken)
	a.crash()
	p.setDown(false)
	var once sync.Once
	committed, known := make(chan struct{}), make(chan struct{})
	broken.beforeAnswer = func(cmd *fsmpb.Command) {
		if cmd.GetAttachReplica() == nil {
			return
		}
		once.Do(func() {
			close(committed)
			<-known
		})
	}
	broken.start(nil)
	<-committed
	a.start(nil)
	p.eventually("the failure is known", func() bool { return p.volume(id).ActiveReplica(broken.host()).DiskFailed != 0 })
	close(known)
	p.waitUpToDate(id)
	p.eventually("the failure is over", func() bool { return p.volume(id).ActiveReplica(broken.host()).DiskFailed == 0 })
	broken.holdsAll(id, "first", "second", "meanwhile")
	require.Equal(t, 1, broken.replicator.Steps("remake-metadata"))
}

// restartAfter starts the hosts that lost their power.
func (p *pair) restartAfter(bothCrashed, brokenLast bool, broken, whole *member) {
	first, last := broken, whole
	if brokenLast {
		first, last = whole, broken
	}
	for _, m := range []*member{first, last} {
		if m == broken || bothCrashed {
			m.start(nil)
		}
	}
}

// sharedUUID is the generation that the host's record says both replicas had.
func (m *member) sharedUUID(id fsm.VolumeID) uint64 {
	m.t.Helper()
	file, err := records.OpenRecordFile(m.dir, id)
	require.NoError(m.t, err)
	if file.Replica == nil {
		return 0
	}
	return file.Replica.SharedUUID
}
