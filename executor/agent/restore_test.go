package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S1, S5: the log was restored to before a disk's last attachment: what its host observes counts again, without a reboot.
func TestS1_S5_AReplicaAttachedAfterTheBackupCountsAgain(t *testing.T) {
	for name, attached := range map[string]func(p *pair, id fsm.VolumeID){
		"by another process": func(p *pair, id fsm.VolumeID) {
			p.hosts[0].crash()
			p.hosts[0].start(nil)
		},
		"and is primary": func(p *pair, id fsm.VolumeID) {
			p.hosts[0].crash()
			p.hosts[0].start(nil)
			p.waitUpToDate(id)
			p.hosts[0].stage(id, p.hosts[0].publish(id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			id := p.create(protocolC)
			p.waitUpToDate(id)
			n := p.logLength()
			attached(p, id)
			p.waitUpToDate(id)
			p.restore(n)
			p.waitUpToDate(id)
		})
	}
}

// S1, S5: the process ends while the attachment is committed again: the next one does that.
func TestS1_S5_ACrashWhileAnAttachmentIsCommittedAgain(t *testing.T) {
	for _, point := range agent.RestoreFaultPoints {
		t.Run(point, func(t *testing.T) {
			p := newPair(t)
			a := p.hosts[0]
			id := p.create(protocolC)
			p.waitUpToDate(id)
			n := p.logLength()
			stop := stopAt(point, 0)
			a.crash()
			a.start(stop)
			p.waitUpToDate(id)
			p.restore(n)
			p.eventually("the process stopped", stop.isStopped)
			a.startAdopted()
			p.waitUpToDate(id)
		})
	}
}

// S1, S67: a disk that failed and was copied again since the backup was made is not taken for one that failed in the
// attachment in which it was copied.
func TestS1_S67_ADiskCopiedAfterTheBackupCountsAgain(t *testing.T) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	p.waitUpToDate(id)
	a.replicator.FailDisk(id)
	p.eventually("it is attached again", func() bool { return p.volume(id).ActiveReplica(a.host()).Attachment == 2 })
	p.waitUpToDate(id)
	p.restore(p.beforeAttachment(2))
	p.waitUpToDate(id)
	require.Zero(t, p.volume(id).ActiveReplica(a.host()).DiskFailed)
}

// restoredBeforeConversion is a converted volume of which a restored log says that it is plain.
func restoredBeforeConversion(t *testing.T) (*pair, fsm.VolumeID) {
	p := newStoppedSites(t)
	for _, m := range p.hosts {
		atSite := m.configure
		m.configure = func(c *agent.Config) {
			atSite(c)
			c.HealthInterval = 5 * time.Millisecond
		}
		m.start(nil)
	}
	a := p.hosts[0]
	id := p.createPlain()
	a.primaryAt(id)
	a.endUse(id)
	n := p.logLength()
	p.enable(id)
	p.waitUpToDate(id)
	a.primaryAt(id)
	a.write(id, "replicated")
	a.endUse(id)
	p.restore(n)
	require.Nil(t, p.volume(id).Replication)
	return p, id
}

// endUse ends the use of the volume at the member's site.
func (m *member) endUse(id fsm.VolumeID) {
	m.t.Helper()
	m.unstage(id)
	m.eventually("it is not published", func() bool {
		m.lastErr = m.at(&fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(m.node)}}})
		return m.volume(id).Publication(m.node) == nil && len(m.volume(id).Teardowns) == 0
	})
}

// S1, S55: the log was restored to before a volume's conversion. Which host has the newest content is not known, so it is not
// used before somebody says so by enabling its replication again; then it has what its host had.
func TestS1_S55_AVolumeRestoredToBeforeItsConversion(t *testing.T) {
	p, id := restoredBeforeConversion(t)
	a := p.hosts[0]
	p.eventually("its condition says so", func() bool { return p.volume(id).Condition.Message == plan.UnknownReplica })
	epoch := a.publishAt(id)
	for range 2 {
		err := a.e.Stage(t.Context(), executor.StageRequest{Volume: id, Epoch: epoch, Path: stagingPath, Capability: mountCap})
		require.Equal(t, fsm.Precondition, reasonOf(err))
		require.ErrorContains(t, err, plan.UnknownReplica)
	}
	a.endUse(id)
	p.enable(id)
	p.waitUpToDate(id)
	p.eventually("it is well", func() bool { return !p.volume(id).Condition.Abnormal })
	require.True(t, has(a.replicator.DiskContent(id), "replicated"))
	a.primaryAt(id)
}
