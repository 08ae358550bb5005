// Package controller serves csi.v1.Controller on every controller, leader or not.
// A handler translates, proposes, waits and answers; it decides nothing: that is
// for the state, in fsm. Reads are linearizable. What is not advertised in
// capabilities is UNIMPLEMENTED.
//
// For a replicated volume, publishing waits until the replica is primary, and
// unpublishing from a host that cannot be reached until nobody there can have a write
// acknowledged any more: the two ends of a takeover (S8).
package controller

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is all that the service asks of the log, the state and the hosts.
type Cluster = cluster.Cluster

const (
	// unstagePatience is how long ControllerUnpublishVolume waits for a report that
	// the volume was unstaged, which may still be on its way (S31).
	unstagePatience = 2 * time.Second
	// severPatience is how long it waits for the replica of an unreachable host to be
	// without effect: the call answers within 5 s.
	severPatience = 4500 * time.Millisecond
)

// Server serves csi.v1.Controller.
type Server struct {
	csi.UnimplementedControllerServer
	log             *cluster.Client
	off             map[csi.ControllerServiceCapability_RPC_Type]bool
	mounts          fsm.MountPolicy
	unstagePatience time.Duration
	severPatience   time.Duration
	measured        func(context.Context) []*fsmpb.PoolFact
}

var _ csi.ControllerServer = (*Server)(nil)

// New serves the controller service over a cluster, without the capabilities that
// are turned off: their RPCs are UNIMPLEMENTED.
func New(c Cluster, off ...csi.ControllerServiceCapability_RPC_Type) *Server {
	s := &Server{log: cluster.New(c), off: map[csi.ControllerServiceCapability_RPC_Type]bool{}, unstagePatience: unstagePatience, severPatience: severPatience}
	for _, capability := range off {
		s.off[capability] = true
	}
	return s
}

// Measure has GetCapacity ask what is measured of the pools now. Without it the
// reservations alone say what there is. Call it before the server serves.
func (s *Server) Measure(measured func(context.Context) []*fsmpb.PoolFact) *Server {
	s.measured = measured
	return s
}

// AllowMounts serves further mount flags, those that the nodes serve.
func (s *Server) AllowMounts(policy fsm.MountPolicy) *Server {
	s.mounts = policy
	return s
}

// mountable refuses mount flags that no node would take; fsType is for capabilities
// that leave it open.
func (s *Server) mountable(fsType string, asked ...*csi.VolumeCapability) error {
	for _, c := range asked {
		own := c.GetMount().GetFsType()
		if own == "" {
			own = fsType
		}
		if rej := s.mounts.Check(own, c.GetMount().GetMountFlags()); rej != nil {
			return rej
		}
	}
	return nil
}

// propose has one command applied.
func (s *Server) propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	return s.log.Apply(ctx, cmd)
}

// read looks at a state that is not stale.
func (s *Server) read(ctx context.Context, fn func(*fsm.State) error) error {
	return s.log.Look(ctx, fn)
}

func expired(err error) bool { return cluster.Expired(err) }

// await waits for a volume; see cluster.Client.Await.
func (s *Server) await(ctx context.Context, id fsm.VolumeID, what string, done func(*fsm.State) (bool, error)) error {
	wake, stop := s.log.WatchVolume(id)
	defer stop()
	return s.log.Await(ctx, wake, what+" volume "+string(id), done)
}

// awaitSnapshot waits for a snapshot.
func (s *Server) awaitSnapshot(ctx context.Context, id fsm.SnapshotID, what string, done func(*fsm.State) (bool, error)) error {
	wake, stop := s.log.WatchSnapshot(id)
	defer stop()
	return s.log.Await(ctx, wake, what+" snapshot "+string(id), done)
}

// findVolume is a volume as the quorum knows it, in any phase; NotFound when there is none.
func (s *Server) findVolume(ctx context.Context, id fsm.VolumeID) (*fsm.Volume, error) {
	var found *fsm.Volume
	err := s.read(ctx, func(state *fsm.State) error {
		v, ok := state.Volume(id)
		if !ok {
			return unknownVolume(id)
		}
		found = v
		return nil
	})
	return found, err
}

func unknownVolume(id fsm.VolumeID) *fsm.Rejection { return cluster.UnknownVolume(id) }
