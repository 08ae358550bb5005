package scenarios

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
)

// setUpLogDisk puts the data of the third guest's controller on a disk of its own, below which there is a table of device-mapper.
const setUpLogDisk = `
set -e; mkdir -p /lab/backups
[ "$(hostname)" = n3 ] || exit 0
modprobe dm-mod; dmsetup create log --table "0 $(blockdev --getsz /dev/ubdd) linear /dev/ubdd 0"; dmsetup mknodes log
mkfs.ext4 -q /dev/mapper/log; mkdir -p /disk/log; mount /dev/mapper/log /disk/log
mkdir -m 700 /disk/log/controller /var/lib/holdfast/controller; mount --bind /disk/log/controller /var/lib/holdfast/controller`

// slowTheLog has each write to the disk of a controller's log take a while, and then as little as before. What the alert looks at is one of
// a hundred writes of the last minutes: a few that are slow are enough, and it is over when there were a hundred times as many others, for
// which commands are decided one after another.
func (w *watched) slowTheLog(v *volume, node string) {
	w.Quiet("HoldfastSlowDisk")
	w.layLogTable(node, "delay /dev/ubdd 0 0 /dev/ubdd 0 150")
	require.NoError(w.t, w.decide(w.t.Context(), v, node))
	w.Fires("HoldfastSlowDisk")
	w.layLogTable(node, "linear /dev/ubdd 0")
	eventually(w.t, resyncTimeout, "one of a hundred writes is fast", func(ctx context.Context) error {
		over, err := w.Holds(ctx, `absent(ALERTS{alertname="HoldfastSlowDisk"})`)
		if err != nil || over {
			return err
		}
		return errors.Join(w.decide(ctx, v, node), errors.New("not yet"))
	})
	w.Ends("HoldfastSlowDisk")
}

// layLogTable puts another table below the log.
func (w *watched) layLogTable(node, table string) {
	w.t.Helper()
	w.mustExec(w.t, node, fmt.Sprintf(`set -e; modprobe dm-delay; l=$(blockdev --getsz /dev/ubdd)
dmsetup suspend --nolockfs log; dmsetup load log --table "0 $l %s"; dmsetup resume log`, table))
}

// decide has the log decide two commands.
func (w *watched) decide(ctx context.Context, v *volume, node string) error {
	if err := w.co.publish(ctx, v, node); err != nil {
		return err
	}
	return w.co.unpublish(ctx, v, node)
}
