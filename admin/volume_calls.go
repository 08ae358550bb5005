package admin

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CSICluster is the cluster as CSI's controller service sees it.
type CSICluster interface {
	// Site is the site that the calls act for.
	Site() string
	// Actor is in whose name Propose has commands applied.
	Actor() string
	// Propose, Read and View are those of Cluster.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	Read(ctx context.Context, fn func(*fsm.State) error) (index uint64, err error)
	View(fn func(*fsm.State) error) error
	// The watches wake when something about what they name may have changed, until stop.
	WatchVolumes(ids ...fsm.VolumeID) (wake <-chan struct{}, stop func())
	WatchSnapshot(id fsm.SnapshotID) (wake <-chan struct{}, stop func())
	WatchGroup(id fsm.GroupSnapshotID) (wake <-chan struct{}, stop func())
}

// VolumeCalls makes CSI's controller service, which carries out changes of volumes. A plan has the same service make
// the same call of a copy of the state, so that both validate alike.
type VolumeCalls struct {
	// Cluster is the log, whose commands have the actor and the site.
	Cluster func(actor, site string) CSICluster
	// Controller is the service on a cluster.
	Controller func(CSICluster) csi.ControllerServer
	// Check refuses a request that breaks what CSI demands of every message.
	Check func(proto.Message) error
}

// forkCluster is a copy of the state: commands are tried on it. It needs no time, so that calls are made of it whose
// context has ended, and none waits for hosts.
type forkCluster struct {
	dryRun  fsm.DryRun
	site    string
	refused *fsm.Rejection // the last command's
	fault   error
}

func (f *forkCluster) Site() string { return f.site }

// Actor is the plan's, an admin.
func (f *forkCluster) Actor() string { return f.dryRun.Actor }

// Propose tries the command.
func (f *forkCluster) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	f.refused = nil
	out, err := f.dryRun.Apply(cmd)
	if err != nil {
		f.fault = err
		return nil, err
	}
	err = fsm.Err(out)
	errors.As(err, &f.refused)
	return out, err
}

func (f *forkCluster) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	return f.dryRun.Fork.Cluster().Index, fn(f.dryRun.Fork)
}

func (f *forkCluster) View(fn func(*fsm.State) error) error { return fn(f.dryRun.Fork) }

func (f *forkCluster) WatchVolumes(...fsm.VolumeID) (<-chan struct{}, func())   { return never() }
func (f *forkCluster) WatchSnapshot(fsm.SnapshotID) (<-chan struct{}, func())   { return never() }
func (f *forkCluster) WatchGroup(fsm.GroupSnapshotID) (<-chan struct{}, func()) { return never() }

// never is a watch that does not wake.
func never() (<-chan struct{}, func()) { return nil, func() {} }

// calledCluster is a cluster whose commands say why the operator asks, and by which plan.
type calledCluster struct {
	CSICluster
	call *call
}

func (c calledCluster) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	return c.CSICluster.Propose(ctx, c.call.stamp(cmd))
}
