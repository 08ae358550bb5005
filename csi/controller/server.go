// Package controller serves csi.v1.Controller on every controller, leader or not.
// A handler translates, proposes, waits and answers; it decides nothing: that is
// for the state, in fsm. Reads are linearizable. What is not advertised in
// capabilities is UNIMPLEMENTED.
package controller

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is all that the service asks of the log and the state.
type Cluster interface {
	// Propose has a command applied, here too when it returns. It fills the
	// request id and the actor. A rejection is the error *fsm.Rejection.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read calls fn with a state that holds everything acknowledged before the call.
	Read(ctx context.Context, fn func(*fsm.State) error) (index uint64, err error)
	// View calls fn with the state of this member. After Propose it has seen the outcome.
	View(fn func(*fsm.State) error) error
	// WatchVolume wakes when something about the volume may have changed, until stop.
	WatchVolume(id fsm.VolumeID) (wake <-chan struct{}, stop func())
}

const (
	// lookAgain is how often a waiting call looks without being woken: a lost
	// wake-up costs time, not truth.
	lookAgain = time.Second
	// unstagePatience is how long ControllerUnpublishVolume waits for a report that
	// the volume was unstaged, which may still be on its way (S31).
	unstagePatience = 2 * time.Second
)

// Server serves csi.v1.Controller.
type Server struct {
	csi.UnimplementedControllerServer
	cluster         Cluster
	lookAgain       time.Duration
	unstagePatience time.Duration
}

var _ csi.ControllerServer = (*Server)(nil)

// New serves the controller service over a cluster.
func New(cluster Cluster) *Server {
	return &Server{cluster: cluster, lookAgain: lookAgain, unstagePatience: unstagePatience}
}

// propose has one command applied.
func (s *Server) propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd.SchemaVersion = fsm.SchemaVersion
	out, err := s.cluster.Propose(ctx, cmd)
	return out, unanswered(err, "the log did not take the command in time")
}

// read looks at a state that is not stale.
func (s *Server) read(ctx context.Context, fn func(*fsm.State) error) error {
	_, err := s.cluster.Read(ctx, fn)
	return unanswered(err, "the state could not be read in time")
}

// unanswered is UNAVAILABLE when the time ran out before the quorum answered, also
// where a deadline is near (S28).
func unanswered(err error, what string) error {
	var rejection *fsm.Rejection
	if !errors.As(err, &rejection) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return rpcerr.Unavailable("%s: there may be no quorum", what)
	}
	return err
}

// expired tells whether a command came too late to be applied (S4).
func expired(err error) bool {
	var rejection *fsm.Rejection
	return errors.As(err, &rejection) && rejection.Reason == fsm.Expired
}

// await returns when done says so, its error, or fsm.Busy (ABORTED) when ctx ends:
// the operation goes on and the retry joins it.
func (s *Server) await(ctx context.Context, id fsm.VolumeID, what string, done func(*fsm.State) (bool, error)) error {
	wake, stop := s.cluster.WatchVolume(id)
	defer stop()
	tick := time.NewTicker(s.lookAgain)
	defer tick.Stop()
	for {
		ended := false
		err := s.cluster.View(func(state *fsm.State) (err error) {
			ended, err = done(state)
			return err
		})
		if err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return fsm.Reject(fsm.Busy, "%s volume %s: its hosts are still at work; the retry joins", what, id)
		case <-wake:
		case <-tick.C:
		}
	}
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

func unknownVolume(id fsm.VolumeID) *fsm.Rejection {
	return fsm.Reject(fsm.NotFound, "volume %q is not known", rpcerr.Truncate(string(id), maxShownID))
}

// maxShownID bounds a caller's id in a message, in bytes.
const maxShownID = 64
