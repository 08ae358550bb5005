package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// stagedInTheBackup is a replicated volume that was staged when the backup was made, and was unstaged later; then something
// happened to its host.
func stagedInTheBackup(t *testing.T, later func(m *member)) (*pair, fsm.VolumeID) {
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	p.eventually("the log has it staged", func() bool {
		s := a.publication(id).Staging
		return s != nil && s.Done
	})
	n := p.logLength()
	a.write(id, "acknowledged")
	a.unstage(id)
	a.unpublish(id)
	later(a)
	p.waitUpToDate(id)
	p.restore(n)
	return p, id
}

// S1, S73: the log was restored to when a volume was staged, which was unstaged since: its host does not become primary and secondary for
// ever, with an entry of the log for each time.
func TestS1_AVolumeThatWasUnstagedAfterTheBackup(t *testing.T) {
	t.Parallel()
	p, _ := stagedInTheBackup(t, func(*member) {})
	p.hosts[0].hearAll()
	p.requireQuiet()
}

// requireQuiet: the log does not grow by itself.
func (p *pair) requireQuiet() {
	p.t.Helper()
	before := p.logLength()
	time.Sleep(time.Second) // the property is about time: what loops fills the log with thousands of entries
	require.Less(p.t, p.logLength()-before, 50)
}

// And it can be published and staged there again.
func TestS1_AVolumeThatWasUnstagedAfterTheBackupIsPublishedAgain(t *testing.T) {
	t.Parallel()
	p, id := stagedInTheBackup(t, func(*member) {})
	a := p.hosts[0]
	a.hearAll()
	epoch := a.publish(id)
	a.stage(id, epoch)
}

// And without publishing it again, as its VolumeAttachment is there.
func TestS1_AVolumeThatWasUnstagedAfterTheBackupIsStagedAgain(t *testing.T) {
	t.Parallel()
	p, id := stagedInTheBackup(t, func(*member) {})
	a := p.hosts[0]
	a.stage(id, a.publication(id).Epoch)
	p.waitUpToDate(id)
}

// S1: a primary that is staged through a restore had lost its peer before.
func TestS1_APrimaryHasLostItsPeerBeforeARestore(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a := p.hosts[0]
	id := p.create(protocolC)
	a.stage(id, a.publish(id))
	n := p.logLength()
	a.write(id, "acknowledged")
	p.link.SetDisconnected(true)
	a.write(id, "alone")
	p.restore(n)
	p.link.SetDisconnected(false)
	p.waitUpToDate(id)
	a.write(id, "together")
	p.waitUpToDate(id)
	p.hosts[1].holdsAll(id, "acknowledged", "alone", "together")
	require.Zero(t, p.link.SplitBrains())
}

// hearAll is what a session sends when its host was adopted (controller_feed.go): no other registration.
func (m *member) hearAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sendAll()
}

// S1: the same, and the host's process, or the host, was started again since it unstaged the volume.
func TestS1_AVolumeThatWasUnstagedByAnotherProcessAfterTheBackup(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(m *member){
		"another process": func(m *member) { m.stop(); m.start(nil) },
		"rebooted":        func(m *member) { m.crash(); m.start(nil) },
	} {
		for use, published := range map[string]bool{"": false, " and published": true} {
			t.Run(name+use, func(t *testing.T) {
				p, id := stagedInTheBackup(t, again)
				a := p.hosts[0]
				a.hearAll()
				p.waitUpToDate(id)
				p.requireQuiet()
				if !published {
					return
				}
				p.must("controller/c1", publishCommand(id, a))
				p.eventually("ControllerPublishVolume is answered", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					v, _ := p.state.Volume(id)
					return p.state.PromotionDone(v, a.node)
				})
			})
		}
	}
}

func publishCommand(id fsm.VolumeID, m *member) *fsmpb.Command {
	return &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: string(id), NodeId: string(m.node), Capability: proto(mountCap)}}}
}
