package admin

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
)

// caller returns the verified identity of who asks for a change, in the form of a command's actor. Below level 3 the log takes
// nothing of the role operator.
func (s *Server) caller(ctx context.Context) (actor string, err error) {
	if actor, err = s.Actor(ctx); err != nil {
		return "", status.Error(codes.Unauthenticated, err.Error())
	}
	if !isOperator(actor) {
		return actor, nil
	}
	var level uint32
	if err := s.read(ctx, func(st *fsm.State) error { level = st.Cluster().FeatureLevel; return nil }); err != nil {
		return "", err
	}
	if level < fsm.Level3 {
		return "", status.Errorf(codes.FailedPrecondition,
			"%s changes nothing yet: the role operator needs feature level %d, the cluster runs at %d: ask an admin, or let one raise it with `holdfast upgrade finish`",
			actor, fsm.Level3, level)
	}
	return actor, nil
}

// isAdmin tells whether the caller is an admin.
func (s *Server) isAdmin(ctx context.Context) bool {
	actor, err := s.Actor(ctx)
	return err == nil && strings.HasPrefix(actor, "admin/")
}

// isOperator tells whether the caller is an operator, and no admin.
func (s *Server) isOperator(ctx context.Context) bool {
	actor, err := s.Actor(ctx)
	return err == nil && isOperator(actor)
}

func isOperator(actor string) bool { return strings.HasPrefix(actor, "operator/") }
