package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAlertsOfHosts: clocks that nobody sets and that are off, a target of backups that was away for a month, a pool without room for its
// maps, a disk that hangs and one that is slow. A real Prometheus sees each alert fire and end.
func TestAlertsOfHosts(t *testing.T) {
	w := watchAlerts(t)
	w.findTheBackups()
	w.setClocks()
	v := &volume{name: "alone", size: 32 * mi}
	require.NoError(t, w.co.create(t.Context(), v, []string{"n3"}, nil))
	w.fillPoolMaps("n3")
	w.hangADevice(v, "n3")
	w.slowTheLog(v, "n3")
	require.NoError(t, w.co.delete(t.Context(), v))
}

// findTheBackups has the target of the backups come back.
func (w *watched) findTheBackups() {
	w.Fires("HoldfastBackupOld")
	w.moveBackups(w.t, backupsAway, backups)
	w.Ends("HoldfastBackupOld")
}

// setClocks has time daemons run in the guests, and then moves the clock of a controller that does not lead.
func (w *watched) setClocks() {
	w.Fires("HoldfastClockUnset")
	require.NoError(w.t, w.lab.DisciplineClocks(w.t.Context()))
	w.Ends("HoldfastClockUnset")
	w.Quiet("HoldfastClockSkew")
	leader, err := w.cluster.Leader(w.t.Context())
	require.NoError(w.t, err)
	g := w.lab.Guest(leader%3 + 1)
	require.NoError(w.t, g.StepClock(w.t.Context(), 3*time.Second))
	w.Fires("HoldfastClockSkew")
	require.NoError(w.t, g.StepClock(w.t.Context(), -3*time.Second))
	require.NoError(w.t, g.DisciplineClock(w.t.Context()))
	w.Ends("HoldfastClockSkew")
	w.Ends("HoldfastClockUnset")
}

// fillPoolMaps makes thin devices in a host's pool that nobody uses, of which each takes a block of the metadata, to three quarters; and
// then extends these, as the alert's page says.
func (w *watched) fillPoolMaps(node string) {
	w.Quiet("HoldfastPoolMetadata")
	w.mustExec(w.t, node, fmt.Sprintf(`set -e; set -- $(dmsetup status %[1]s); used=${5%%%%/*} all=${5#*/}
/run/lab/writer fill --path %[1]s --from %[2]d --most $((all * 3 / 4 - used))`, poolDevice, fillerID))
	w.Fires("HoldfastPoolMetadata")
	w.mustExec(w.t, node, "lvextend -qq --poolmetadatasize +8M vg/pool")
	w.Ends("HoldfastPoolMetadata")
}

// hangADevice suspends the device of a new volume that is about to be staged: what is on it is looked for, and that does not end.
func (w *watched) hangADevice(v *volume, node string) {
	w.Quiet("HoldfastStuck")
	require.NoError(w.t, w.co.publish(w.t.Context(), v, node))
	w.mustExec(w.t, node, "dmsetup suspend --noflush --nolockfs "+v.device())
	staging, cancel := context.WithCancel(w.t.Context())
	staged := make(chan error, 1)
	go func() { staged <- w.co.stage(staging, v, node) }()
	w.Fires("HoldfastStuck")
	cancel()
	require.Error(w.t, <-staged)
	w.mustExec(w.t, node, "dmsetup resume "+v.device())
	w.Ends("HoldfastStuck")
	require.NoError(w.t, w.co.stage(w.t.Context(), v, node))
	w.unstageAndUnpublish(w.t, v, node)
}
