package controller

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// unstageTimeout is how long ControllerUnpublishVolume waits for a report that
	// the volume was unstaged, which may still be on its way (S31).
	unstageTimeout = 2 * time.Second
	// isolationTimeout is how long it waits for the former primary on an unreachable host
	// to be isolated: the call answers within 5 s.
	isolationTimeout = 4500 * time.Millisecond
)

// progress waits until hosts carried out what was decided.
type progress struct {
	client                           *cluster.Client
	unstageTimeout, isolationTimeout time.Duration
}

// await waits for a volume; see cluster.Client.AwaitVolume.
func (p *progress) await(ctx context.Context, id fsm.VolumeID, what string, question cluster.Question) error {
	return p.client.AwaitVolume(ctx, id, what, question)
}

// awaitSnapshot waits for a snapshot.
func (p *progress) awaitSnapshot(ctx context.Context, id fsm.SnapshotID, what string, question cluster.Question) error {
	wake, stop := p.client.WatchSnapshot(id)
	defer stop()
	return p.client.Await(ctx, wake, what+" snapshot "+string(id), question)
}
