// Package controller serves csi.v1.Controller on every controller, leader or not.
// A handler checks that the request is enabled (enabledPolicy), translates it
// (csiconv), proposes a command, waits until its hosts carried it out (progress) and
// answers. fsm decides. Reads are linearizable (stateQueries). What is not advertised
// in capabilities is UNIMPLEMENTED.
//
// A takeover of a replicated volume (S8) spans two calls: unpublishing from an
// unreachable host returns once the former primary is isolated, and publishing to the
// other host returns once its replica is promoted.
package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is all that the service needs of the log, the state and the hosts.
type Cluster = cluster.Cluster

// Server serves csi.v1.Controller.
type Server struct {
	csi.UnimplementedControllerServer
	client    *cluster.Client
	enabled   *enabledPolicy
	state     *stateQueries
	progress  *progress
	poolFacts func(context.Context) []*fsmpb.PoolFact
	// maxGroupVolumes is how many volumes a volume group can have.
	maxGroupVolumes uint32
}

var _ csi.ControllerServer = (*Server)(nil)

// New serves the controller service over a cluster, without the capabilities that are
// disabled: their RPCs are UNIMPLEMENTED.
func New(c Cluster, disabled ...csi.ControllerServiceCapability_RPC_Type) *Server {
	client := cluster.New(c)
	s := &Server{
		client:   client,
		enabled:  &enabledPolicy{disabled: map[csi.ControllerServiceCapability_RPC_Type]bool{}},
		state:    &stateQueries{client: client},
		progress: &progress{client: client, unstageTimeout: unstageTimeout, isolationTimeout: isolationTimeout},
	}
	for _, capability := range disabled {
		s.enabled.disabled[capability] = true
	}
	return s
}

// WithPoolFacts has GetCapacity measure the pools at each call. Without it the answer
// rests on the reservations alone. Call it before the server serves.
func (s *Server) WithPoolFacts(poolFacts func(context.Context) []*fsmpb.PoolFact) *Server {
	s.poolFacts = poolFacts
	return s
}

// WithMountPolicy serves further mount flags, those that the nodes serve.
func (s *Server) WithMountPolicy(policy fsm.MountPolicy) *Server {
	s.enabled.mountPolicy = policy
	return s
}

// WithMaxGroupVolumes lets new volumes join volume groups until they have so many. Without it none can.
func (s *Server) WithMaxGroupVolumes(limit uint32) *Server {
	s.maxGroupVolumes = limit
	return s
}

// propose has one command applied.
func (s *Server) propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	return s.client.ProposeCommand(ctx, cmd)
}
