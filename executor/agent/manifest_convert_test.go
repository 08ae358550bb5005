package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S1, S55: the log is lost in the middle of a conversion, and when it was done; the backup is of before it. Adopted, the
// conversion ends with the content that was there, on both hosts.
func TestS1_S55_AConversionOutlivesTheLog(t *testing.T) {
	for name, middle := range map[string]bool{"in its middle": true, "done": false} {
		t.Run(name, func(t *testing.T) {
			p := newSites(t)
			a, b := p.hosts[0], p.hosts[1]
			id := p.createPlain()
			before := a.pool.Content(id).Bytes()
			backup := p.logLength()
			p.link.SetDisconnected(middle)
			p.enable(id)
			if middle {
				p.eventually("its disk is attached", func() bool { return a.replicator.Steps("attach") > 0 })
			} else {
				p.waitUpToDate(id)
			}
			p.eventually("both hosts say how far it is", func() bool {
				ra, rb := heldOf(t, a.e, id).GetManifest().GetReplication(), heldOf(t, b.e, id).GetManifest().GetReplication()
				return ra != nil && rb != nil && ra.GetConverting() == middle && rb.GetConverting() == middle
			})
			require.True(t, heldOf(t, a.e, id).GetReplica(), "as it recorded before it began")
			p.restoreLog(backup)
			p.link.SetDisconnected(false)
			for range 2 {
				p.adoptVolume(id)
			}
			require.Equal(t, middle, p.volume(id).ConversionInDoubt())
			a.adopt()
			b.adopt()
			p.waitUpToDate(id)
			require.Nil(t, p.volume(id).Replication.Conversion)
			require.Equal(t, before, a.pool.Content(id).ReadAt(0, int64(len(before))))
			require.Zero(t, a.replicator.Steps("invalidate"), "the content is not a target")
		})
	}
}
