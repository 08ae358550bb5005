package replication_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/addons/replication"
	"github.com/holdfast-storage/holdfast/addons/token"
	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const volume = "hf-00000000-0000-4000-8000-000000000001"

// brokenCluster has a state, and fails where it is asked for more.
type brokenCluster struct {
	cluster.Cluster
	state    *fsm.State
	fault    error
	proposed int
}

func newBroken(t *testing.T, level uint32) *brokenCluster {
	t.Helper()
	c := &brokenCluster{state: fsm.New(), fault: errors.New("canary: the disk is on fire")}
	out := c.state.Apply(1, &fsmpb.Command{RequestId: make([]byte, 16), Actor: "controller/c1", SchemaVersion: level, Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "cluster", IncarnationId: []byte("incarnation-0001"), FeatureLevel: level,
	}}}).Outcome
	require.NoError(t, fsm.Err(out))
	return c
}

func (c *brokenCluster) Site() string                         { return "A" }
func (c *brokenCluster) View(fn func(*fsm.State) error) error { return fn(c.state) }

func (c *brokenCluster) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	return 1, fn(c.state)
}

func (c *brokenCluster) Propose(context.Context, *fsmpb.Command) (*fsmpb.Outcome, error) {
	c.proposed++
	return nil, c.fault
}

// ofDeprecated is the request with the field that replication_source replaced.
func ofDeprecated[R proto.Message](req R, volume string) R {
	m := req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("volume_id"), protoreflect.ValueOfString(volume))
	return req
}

// all calls all six RPCs, with the volume or with an empty request.
func all(ctx context.Context, s *replication.Server, id string, secrets map[string]string) map[string]error {
	errs := map[string]error{}
	_, errs["Enable"] = s.EnableVolumeReplication(ctx, ofDeprecated(&spec.EnableVolumeReplicationRequest{Parameters: map[string]string{"peerSite": "B"}, Secrets: secrets}, id))
	_, errs["Disable"] = s.DisableVolumeReplication(ctx, ofDeprecated(&spec.DisableVolumeReplicationRequest{Secrets: secrets}, id))
	_, errs["Promote"] = s.PromoteVolume(ctx, ofDeprecated(&spec.PromoteVolumeRequest{Secrets: secrets}, id))
	_, errs["Demote"] = s.DemoteVolume(ctx, ofDeprecated(&spec.DemoteVolumeRequest{Secrets: secrets}, id))
	_, errs["Resync"] = s.ResyncVolume(ctx, ofDeprecated(&spec.ResyncVolumeRequest{Secrets: secrets}, id))
	_, errs["Info"] = s.GetVolumeReplicationInfo(ctx, ofDeprecated(&spec.GetVolumeReplicationInfoRequest{Secrets: secrets}, id))
	return errs
}

// ADD-REPL-Enable-08, ADD-REPL-Disable-08, ADD-REPL-Promote-08, ADD-REPL-Demote-08, ADD-REPL-Resync-08, ADD-REPL-Info-07: UNKNOWN
// where nothing else is known.
func TestAnUnknownErrorIsUnknown(t *testing.T) {
	c := newBroken(t, fsm.MaxFeatureLevel)
	s := replication.New(c, nil, replication.Options{NodeTimeout: time.Second})
	for range 2 {
		for call, err := range all(t.Context(), s, volume, map[string]string{token.Key: "a-secret"}) {
			require.Equal(t, codes.Unknown, status.Code(err), call)
			require.NotContains(t, err.Error(), "a-secret")
		}
	}
}

// ADD-REPL-Promote-09, ADD-REPL-Demote-09, ADD-REPL-Resync-09, ADD-REPL-Info-08: UNIMPLEMENTED where it is turned off, and where the
// cluster has members that know no sites.
func TestWhatIsTurnedOffIsUnimplemented(t *testing.T) {
	for name, s := range map[string]*replication.Server{
		"turned off":      replication.New(newBroken(t, fsm.MaxFeatureLevel), nil, replication.Options{Disabled: []string{"VOLUME_REPLICATION"}}),
		"feature level 1": replication.New(&brokenCluster{state: newBroken(t, 1).state}, nil, replication.Options{}),
	} {
		for range 2 {
			for call, err := range all(t.Context(), s, volume, nil) {
				require.Equal(t, codes.Unimplemented, status.Code(err), "%s: %s", name, call)
			}
		}
	}
}

// ADD-REPL-Enable-04, ADD-REPL-Disable-04, ADD-REPL-Promote-04, ADD-REPL-Demote-04, ADD-REPL-Resync-04, ADD-REPL-Info-03: a request without
// anything, and none at all.
func TestEmptyRequests(t *testing.T) {
	c := newBroken(t, fsm.MaxFeatureLevel)
	s := replication.New(c, nil, replication.Options{})
	errs := all(t.Context(), s, "", nil)
	_, errs["no Enable"] = s.EnableVolumeReplication(t.Context(), nil)
	_, errs["no Disable"] = s.DisableVolumeReplication(t.Context(), nil)
	_, errs["no Promote"] = s.PromoteVolume(t.Context(), nil)
	_, errs["no Demote"] = s.DemoteVolume(t.Context(), nil)
	_, errs["no Resync"] = s.ResyncVolume(t.Context(), nil)
	_, errs["no Info"] = s.GetVolumeReplicationInfo(t.Context(), nil)
	for call, err := range errs {
		require.Equal(t, codes.InvalidArgument, status.Code(err), call)
	}
	require.Zero(t, c.proposed)
}

// S39: a call whose caller is gone is not proposed.
func TestS39_ACallWhoseCallerIsGoneIsNotProposed(t *testing.T) {
	c := newBroken(t, fsm.MaxFeatureLevel)
	s := replication.New(c, nil, replication.Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range all(gone, s, volume, nil) {
		require.Error(t, err, call)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := s.EnableVolumeReplication(late, ofDeprecated(&spec.EnableVolumeReplicationRequest{Parameters: map[string]string{"peerSite": "B"}}, volume))
	require.Equal(t, codes.Aborted, status.Code(err))
	require.Zero(t, c.proposed)
}

// ADD-REPL-Enable-07, ADD-REPL-Disable-07, ADD-REPL-Promote-07, ADD-REPL-Demote-07, ADD-REPL-Resync-07, ADD-REPL-Info-06, and -03 of each:
// UNAUTHENTICATED without the token, which no answer shows.
func TestATokenIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("the-token\n"), 0o600))
	check := token.Require(path)
	for _, desc := range spec.Controller_ServiceDesc.Methods {
		for given, want := range map[string]codes.Code{"": codes.Unauthenticated, "canary": codes.Unauthenticated, "the-token": codes.OK} {
			decode := func(req any) error {
				secrets := map[string]string{token.Key: given}
				switch r := req.(type) {
				case *spec.EnableVolumeReplicationRequest:
					r.Secrets = secrets
				case *spec.DisableVolumeReplicationRequest:
					r.Secrets = secrets
				case *spec.PromoteVolumeRequest:
					r.Secrets = secrets
				case *spec.DemoteVolumeRequest:
					r.Secrets = secrets
				case *spec.ResyncVolumeRequest:
					r.Secrets = secrets
				case *spec.GetVolumeReplicationInfoRequest:
					r.Secrets = secrets
				default:
					return errors.New("a request that the test does not know")
				}
				return nil
			}
			admit := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
				return check(ctx, req, info, func(context.Context, any) (any, error) { return nil, nil })
			}
			_, err := desc.Handler(&replication.Server{}, t.Context(), decode, admit)
			require.Equal(t, want, status.Code(rpcerr.From(err)), desc.MethodName)
			if err != nil {
				require.NotContains(t, err.Error(), "canary")
				require.NotContains(t, err.Error(), "the-token")
			}
		}
	}
	require.Len(t, spec.Controller_ServiceDesc.Methods, 6, "ADD-REPL-Svc-01")
	require.Equal(t, "replication.Controller", spec.Controller_ServiceDesc.ServiceName, "ADD-REPL-Svc-03")
}

// S40, ADD-REPL-Promote-16: whatever the state machine answers, PromoteVolume is FAILED_PRECONDITION for two reasons only.
func TestS40_PromoteOfWhateverReason(t *testing.T) {
	c := newBroken(t, fsm.MaxFeatureLevel)
	s := replication.New(c, nil, replication.Options{})
	for reason := range fsm.Reason(64) {
		c.fault = fsm.Reject(reason, "why")
		for _, force := range []bool{false, true} {
			_, err := s.PromoteVolume(t.Context(), ofDeprecated(&spec.PromoteVolumeRequest{Force: force}, volume))
			require.Error(t, err)
			answered := reason == fsm.NotReplicated || reason == fsm.NeedsForce
			require.Equal(t, answered, status.Code(err) == codes.FailedPrecondition, reason)
		}
	}
}
