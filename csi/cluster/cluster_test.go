package cluster_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// member is a member of a cluster whose own state may be behind.
type member struct {
	cluster.Cluster
	applied, newest *fsm.State
	unreadable      error
	proposed        []*fsmpb.Command
}

func (m *member) Site() string { return "A" }

func (m *member) View(fn func(*fsm.State) error) error { return fn(m.applied) }

func (m *member) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	if m.unreadable != nil {
		return 0, m.unreadable
	}
	return 1, fn(m.newest)
}

func (m *member) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	m.proposed = append(m.proposed, cmd)
	return &fsmpb.Outcome{}, nil
}

// at is the state of a cluster that runs at a feature level.
func at(t *testing.T, level uint32) *fsm.State {
	t.Helper()
	s, id := fsm.New(), uuid.New()
	out := s.Apply(1, &fsmpb.Command{RequestId: id[:], Actor: "controller/c1", SchemaVersion: level, Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster", IncarnationId: make([]byte, 16), FeatureLevel: level}}}).Outcome
	require.NoError(t, fsm.Err(out))
	return s
}

// S32: a controller that has not applied its log yet, as after its start, proposes in its site's name; where
// nobody can tell at which level the cluster runs it proposes nothing.
func TestS32_ACommandOfAControllerThatIsBehindNamesItsSite(t *testing.T) {
	for name, tc := range map[string]struct {
		applied, newest uint32
		unreadable      error
		want            string
		code            codes.Code
	}{
		"up to date":           {applied: 2, newest: 2, want: "A"},
		"just started":         {newest: 2, want: "A"},
		"behind an upgrade":    {applied: 1, newest: 2, want: "A"},
		"below the level":      {applied: 1, newest: 1},
		"being set up":         {code: codes.Unavailable},
		"no quorum":            {unreadable: context.DeadlineExceeded, code: codes.Unavailable},
		"no quorum, not asked": {applied: 2, unreadable: context.DeadlineExceeded, want: "A"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &member{applied: fsm.New(), newest: fsm.New(), unreadable: tc.unreadable}
			if tc.applied != 0 {
				m.applied = at(t, tc.applied)
			}
			if tc.newest != 0 {
				m.newest = at(t, tc.newest)
			}
			for i := range 2 {
				_, err := cluster.New(m).ProposeCommand(t.Context(), &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{}}})
				require.Equal(t, tc.code, status.Code(rpcerr.From(err)), err)
				if tc.code != codes.OK {
					require.Empty(t, m.proposed)
					continue
				}
				require.Equal(t, tc.want, m.proposed[i].GetSite())
			}
		})
	}
}
