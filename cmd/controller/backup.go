package controller

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
)

// takeBackup writes a backup of this controller's state.
func (c *controller) takeBackup(ctx context.Context, r admin.BackupRequest, w io.Writer) error {
	m, err := c.cluster.member()
	if err != nil {
		return err
	}
	wanted := backup.Request{Member: c.name, Stale: r.Stale, Increment: r.Increment, Since: r.Since, Now: time.Now()}
	if r.BaseCluster != "" {
		wanted.Base = &backup.Header{ClusterID: r.BaseCluster, Incarnation: r.BaseIncarnation, IncarnationID: r.BaseIncarnationID}
	}
	_, err = backup.Take(ctx, m, wanted, w)
	if errors.Is(err, backup.ErrRefused) {
		return fsm.Reject(fsm.Precondition, "%s", err.Error())
	}
	return err
}
