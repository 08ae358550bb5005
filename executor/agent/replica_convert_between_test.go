package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// convertedInBetween is a plain volume whose host is asked to convert it between two lines of its worker: the spec is of
// the desired state without replication but with the operation of the conversion, so it "may expand"; what is observed
// for it next is a replica, which has less room than the volume's size.
func convertedInBetween(t *testing.T) (*pair, fsm.VolumeID, []byte) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createPlain()
	before := a.pool.Content(id).Bytes()
	made := make(chan struct{})
	b.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
		if effect == "create" {
			<-made
		}
		return nil
	})
	p.enable(id)
	require.NoError(t, a.e.BackgroundAfter(t.Context(), id, func() {
		require.Nil(t, a.e.DesiredReplication(id))
		close(made)
		p.eventually("its host is asked to convert it", func() bool { d := a.e.DesiredReplication(id); return d != nil && d.Converting })
	}))
	return p, id, before
}

// S55: nothing of the image is changed before its size is recorded; else its conversion would be refused for ever.
func TestS55_AConversionThatComesInBetweenIsDone(t *testing.T) {
	p, id, before := convertedInBetween(t)
	p.waitUpToDate(id)
	require.Nil(t, p.volume(id).Replication.Conversion)
	require.Equal(t, before, p.hosts[0].pool.Content(id).ReadAt(0, int64(len(before))))
}

// S55: and when it is undone, the image has the size that it had.
func TestS55_AConversionThatComesInBetweenIsUndone(t *testing.T) {
	p, id, before := convertedInBetween(t)
	if p.cancelConversion(id) {
		p.requirePlain(id, before)
	}
}
