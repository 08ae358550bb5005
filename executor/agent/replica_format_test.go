package agent_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// failFormat has mkfs leave pieces of its own, which DRBD writes to both disks.
func (m *member) failFormat(id fsm.VolumeID) {
	m.t.Helper()
	m.mounter.setFail(func(effect, _ string) error {
		if effect != "mkfs" {
			return nil
		}
		return errors.New("killed")
	})
	epoch := m.publish(id)
	require.Error(m.t, m.e.Stage(m.t.Context(), executor.StageRequest{Volume: id, Epoch: epoch, Path: stagingPath, Capability: mountCap}))
	m.mounter.setFail(nil)
	for _, host := range m.hosts {
		host.mounter.setContent(id, executor.Content{Read: true})
	}
}

// S15: the pieces are on both disks, and only one host's record says whose they are.
func TestS15_AFormatThatWasInterruptedOnThePeerIsRepeated(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.create(protocolC)
	a.failFormat(id)
	uuid := p.volume(id).Format.FSUUID
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, p.volume(id).Format.Phase)
	a.unpublish(id)
	b.failFormat(id)
	b.crash()
	b.start(nil)
	epoch := b.publish(id)
	for range 2 {
		b.stage(id, epoch)
	}
	require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, p.volume(id).Format.Phase)
	require.Equal(t, uuid, p.volume(id).Format.FSUUID, "the first uuid stays")
	b.unstage(id)
	b.unpublish(id)
	for _, m := range p.hosts {
		m.mounter.setContent(id, executor.Content{Read: true}) // once it was made, it is never made again
	}
	require.Equal(t, fsm.Precondition, reasonOf(a.e.Stage(t.Context(), executor.StageRequest{Volume: id, Epoch: a.publish(id), Path: stagingPath, Capability: mountCap})))
}
