package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// whileFormatting is how long the log was when the member's stage of the volume had been granted, and mkfs had not ended.
func (p *pair) whileFormatting(id fsm.VolumeID) int {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, cmd := range p.applied {
		if c := cmd.GetStageVolume(); c != nil && c.GetVolumeId() == string(id) {
			return i + 1
		}
	}
	p.t.Fatal("it was never staged")
	return 0
}

// S1, S15: the backup was made while a volume was being formatted for the first time. It was used since: its filesystem is not made anew.
func TestS15_ALogRestoredToTheMiddleOfAFormat(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(p *pair) fsm.VolumeID{
		"a plain volume":      (*pair).createPlain,
		"a replicated volume": func(p *pair) fsm.VolumeID { return p.create(fsmpb.Protocol_PROTOCOL_C) },
	} {
		for restart, restarts := range map[string]bool{"": false, ", host rebooted": true} {
			t.Run(name+restart, func(t *testing.T) {
				p := newSites(t)
				if name != "a plain volume" {
					p = newPair(t)
				}
				a := p.hosts[0]
				id := create(p)
				epoch := a.publishIfAt(id)
				a.stage(id, epoch)
				n := p.whileFormatting(id)
				require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, p.volume(id).Format.Phase)
				made := a.mounter.count("mkfs")
				require.Equal(t, 1, made)
				a.unstage(id) // what was written is on the disk
				if restarts {
					a.crash()
				}
				p.restore(n)
				if restarts {
					a.startAdopted()
				}
				require.Equal(t, fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, p.volume(id).Format.Phase)
				a.disconnect()
				a.connect() // it hears that it was adopted
				a.stage(id, p.volume(id).Publication(a.node).Epoch)
				require.Equal(t, made, a.mounter.count("mkfs"), "the filesystem, with everything that was acknowledged, was made anew")
			})
		}
	}
}

// publishIfAt publishes through the member's site where it has one.
func (m *member) publishIfAt(id fsm.VolumeID) fsm.Epoch {
	m.t.Helper()
	if m.configure != nil {
		return m.publishAt(id)
	}
	return m.publish(id)
}
