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
	// unstageTimeout is how long ControllerUnpublishVolume waits for a report that
	// the volume was unstaged, which may still be on its way (S31).
	unstageTimeout = 2 * time.Second
	// isolationTimeout is how long it waits for the replica of an unreachable host to be
	// without effect: the call answers within 5 s.
	isolationTimeout = 4500 * time.Millisecond
)

// Server serves csi.v1.Controller.
type Server struct {
	csi.UnimplementedControllerServer
	client           *cluster.Client
	disabled         map[csi.ControllerServiceCapability_RPC_Type]bool
	mountPolicy      fsm.MountPolicy
	unstageTimeout   time.Duration
	isolationTimeout time.Duration
	poolFacts        func(context.Context) []*fsmpb.PoolFact
}

var _ csi.ControllerServer = (*Server)(nil)

// New serves the controller service over a cluster, without the capabilities that
// are turned off: their RPCs are UNIMPLEMENTED.
func New(c Cluster, disabled ...csi.ControllerServiceCapability_RPC_Type) *Server {
	s := &Server{client: cluster.New(c), disabled: map[csi.ControllerServiceCapability_RPC_Type]bool{}, unstageTimeout: unstageTimeout, isolationTimeout: isolationTimeout}
	for _, capability := range disabled {
		s.disabled[capability] = true
	}
	return s
}

// WithPoolFacts has GetCapacity ask what is measured of the pools now. Without it the
// reservations alone say what there is. Call it before the server serves.
func (s *Server) WithPoolFacts(poolFacts func(context.Context) []*fsmpb.PoolFact) *Server {
	s.poolFacts = poolFacts
	return s
}

// WithMountPolicy serves further mount flags, those that the nodes serve.
func (s *Server) WithMountPolicy(policy fsm.MountPolicy) *Server {
	s.mountPolicy = policy
	return s
}

// checkMountFlags refuses mount flags that no node would take; fsType is for capabilities
// that leave it open.
func (s *Server) checkMountFlags(fsType string, requested ...*csi.VolumeCapability) error {
	for _, c := range requested {
		own := c.GetMount().GetFsType()
		if own == "" {
			own = fsType
		}
		if rej := s.mountPolicy.Check(own, c.GetMount().GetMountFlags()); rej != nil {
			return rej
		}
	}
	return nil
}

// propose has one command applied.
func (s *Server) propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	return s.client.ProposeCommand(ctx, cmd)
}

// readState looks at a state that is not stale.
func (s *Server) readState(ctx context.Context, fn func(*fsm.State) error) error {
	return s.client.ReadState(ctx, fn)
}

// await waits for a volume; see cluster.Client.Await.
func (s *Server) await(ctx context.Context, id fsm.VolumeID, what string, done func(*fsm.State) (bool, error)) error {
	wake, stop := s.client.WatchVolume(id)
	defer stop()
	return s.client.Await(ctx, wake, what+" volume "+string(id), done)
}

// awaitSnapshot waits for a snapshot.
func (s *Server) awaitSnapshot(ctx context.Context, id fsm.SnapshotID, what string, done func(*fsm.State) (bool, error)) error {
	wake, stop := s.client.WatchSnapshot(id)
	defer stop()
	return s.client.Await(ctx, wake, what+" snapshot "+string(id), done)
}

// readVolume is a volume as the quorum knows it, in any phase; NotFound when there is none.
func (s *Server) readVolume(ctx context.Context, id fsm.VolumeID) (*fsm.Volume, error) {
	var volume *fsm.Volume
	err := s.readState(ctx, func(state *fsm.State) error {
		v, ok := state.Volume(id)
		if !ok {
			return unknownVolume(id)
		}
		volume = v
		return nil
	})
	return volume, err
}

func unknownVolume(id fsm.VolumeID) *fsm.Rejection { return cluster.UnknownVolume(id) }
