package session

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// rawSession is a session whose messages the test sends and receives itself.
type rawSession struct {
	t      *testing.T
	stream sessionpb.Session_AttachClient
	cancel context.CancelFunc
}

func (l *testCluster) openSession(m *testMember, as *pki.Credentials, hello *sessionpb.Hello) *rawSession {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	l.t.Cleanup(cancel)
	stream, err := sessionpb.NewSessionClient(l.dial(m.api.addr, as)).Attach(ctx)
	require.NoError(l.t, err)
	w := &rawSession{l.t, stream, cancel}
	if hello != nil {
		w.send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Hello{Hello: hello}})
	}
	return w
}

// send may fail after the stream ended: then endError says why it ended.
func (w *rawSession) send(m *sessionpb.FromNode) {
	w.t.Helper()
	if err := w.stream.Send(m); !errors.Is(err, io.EOF) {
		require.NoError(w.t, err)
	}
}

// nextWelcome is the next Welcome message.
func (w *rawSession) nextWelcome() *sessionpb.Welcome {
	w.t.Helper()
	for {
		m, err := w.stream.Recv()
		require.NoError(w.t, err)
		if welcome := m.GetWelcome(); welcome != nil {
			return welcome
		}
	}
}

// nextVolumes is the next desired state that is no heartbeat.
func (w *rawSession) nextVolumes() *sessionpb.DesiredState {
	w.t.Helper()
	for {
		m, err := w.stream.Recv()
		require.NoError(w.t, err)
		if x := m.GetDesired(); x.GetFull() || len(x.GetVolumes())+len(x.GetVolumesGone()) > 0 {
			return x
		}
	}
}

// endError is the error with which the session ends.
func (w *rawSession) endError() error {
	for {
		if _, err := w.stream.Recv(); err != nil {
			return err
		}
	}
}

func TestASessionSendsEverythingThenChanges(t *testing.T) {
	l := newTestCluster(t, 1)
	m := l.members[0]
	w := l.openSession(m, l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	require.True(t, w.nextWelcome().GetAdopted())
	first := w.nextVolumes()
	require.True(t, first.GetFull())
	require.Empty(t, first.GetVolumes())
	require.Equal(t, uint64(2), first.GetAt().GetIndex(), "the registration is applied before the first desired state")

	l.create(volumeID, "v1")
	next := w.nextVolumes()
	require.False(t, next.GetFull())
	require.Equal(t, volumeID, next.GetVolumes()[0].GetVolume())
	require.Equal(t, uint32(fsm.GoalCreate), next.GetVolumes()[0].GetGoal())
	require.Equal(t, uint64(3), next.GetAt().GetIndex())

	m.simulateRestore()
	require.True(t, w.nextVolumes().GetFull(), "after a restore the full desired state is sent")

	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: volumeID}}})
	require.Equal(t, uint32(fsm.GoalRemove), w.nextVolumes().GetVolumes()[0].GetGoal())
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
		NodeId: "n1", HostId: "host-n1", BootId: "boot-1",
		Observations: []*fsmpb.Observation{{VolumeId: volumeID, Sequence: 1, Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}}},
	}}})
	require.Equal(t, []string{volumeID}, w.nextVolumes().GetVolumesGone())
}

func TestS1_AnotherIncarnationIsSentInFullAndNotAdopted(t *testing.T) {
	l := newTestCluster(t, 1)
	w := l.openSession(l.members[0], l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	before := w.nextWelcome()
	w.nextVolumes()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{
		Counter: before.GetIncarnation() + 1, IncarnationId: []byte("fedcba9876543210"),
	}}})
	after := w.nextWelcome()
	require.Equal(t, before.GetIncarnation()+1, after.GetIncarnation())
	require.Equal(t, []byte("fedcba9876543210"), after.GetIncarnationId())
	require.False(t, after.GetAdopted())
	all := w.nextVolumes()
	require.True(t, all.GetFull())
	require.False(t, all.GetAdopted())
	require.Equal(t, after.GetIncarnation(), all.GetAt().GetIncarnation())

	l.mustApply("admin/x", &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
		NodeId: "n1", HostId: "host-n1", Incarnation: after.GetIncarnation(),
	}}})
	all = w.nextVolumes()
	require.True(t, all.GetFull(), "what may be done now is another thing for every volume")
	require.True(t, all.GetAdopted())
}

func TestS14_AControllerBehindTheHostsActedEpochSendsNothing(t *testing.T) {
	l := newTestCluster(t, 2)
	node := l.credentials(pki.Node, "n1")
	lagging := l.members[1]
	lagging.setLag(true)
	l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")}).nextVolumes()
	l.create(volumeID, "v1")
	for name, acted := range map[string]*fsmpb.Epoch{
		"an index that it has not applied":             {Incarnation: 1, Index: 3},
		"an incarnation that it has not met":           {Incarnation: 2, Index: 1},
		"an index that nobody has, of its incarnation": {Incarnation: 1, Index: 99},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				err := l.openSession(lagging, node, &sessionpb.Hello{Register: register("n1"), Seen: acted}).endError()
				require.Equal(t, codes.Unavailable, status.Code(err), err)
				require.ErrorContains(t, err, "S14")
			}
		})
	}
	t.Run("it speaks as soon as it has applied as much", func(t *testing.T) {
		lagging.server.timing.catchUpTimeout = time.Minute
		w := l.openSession(lagging, node, &sessionpb.Hello{Register: register("n1"), Seen: &fsmpb.Epoch{Incarnation: 1, Index: 3}})
		go lagging.setLag(false)
		require.Equal(t, volumeID, w.nextVolumes().GetVolumes()[0].GetVolume())
	})
}

func TestS17_AnotherHostUnderTheNameIsRefusedAndToldWhatToDo(t *testing.T) {
	l := newTestCluster(t, 1)
	node := l.credentials(pki.Node, "n1")
	current := l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")})
	current.nextVolumes()
	other := register("n1")
	other.HostId, other.Pools[0].PoolId = "another", "another"
	for range 2 {
		err := l.openSession(l.members[0], node, &sessionpb.Hello{Register: other}).endError()
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
		require.ErrorContains(t, err, "holdfast nodes lost n1")
	}
	t.Run("the session of the host that has the name continues", func(t *testing.T) {
		l.create(volumeID, "v1")
		require.Len(t, current.nextVolumes().GetVolumes(), 1)
	})
	t.Run("a host that is recorded as lost gets no messages", func(t *testing.T) {
		l.mustApply("admin/x", &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"}}})
		require.Equal(t, codes.FailedPrecondition, status.Code(current.endError()))
	})
}

func TestS17_DesiredStateIsForAHostIDNotANodeName(t *testing.T) {
	l := newTestCluster(t, 1)
	w := l.openSession(l.members[0], l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	w.nextVolumes()
	l.members[0].setLag(true) // both entries are applied between two views of the state
	l.mustApply("admin/x", &fsmpb.Command{Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"}}})
	other := register("n1")
	other.HostId = "another"
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: other}})
	l.members[0].setLag(false)
	err := w.endError()
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "belongs to host another now")
}

func TestS20_ANodeSpeaksForItselfOnly(t *testing.T) {
	l := newTestCluster(t, 1)
	m := l.members[0]
	node := l.credentials(pki.Node, "n1")
	t.Run("a hello for another node", func(t *testing.T) {
		for range 2 {
			err := l.openSession(m, node, &sessionpb.Hello{Register: register("n2")}).endError()
			require.Equal(t, codes.PermissionDenied, status.Code(err), err)
			require.ErrorContains(t, err, `the certificate is for node n1 and the hello for "n2"`)
		}
		require.Zero(t, m.server.Sessions())
		require.Len(t, l.log, 1, "nothing came into the log")
	})
	for _, role := range []pki.Role{pki.Controller, pki.Admin, pki.Viewer} {
		t.Run("a session of the role "+string(role), func(t *testing.T) {
			err := l.openSession(m, l.credentials(role, "n1"), &sessionpb.Hello{Register: register("n1")}).endError()
			require.Equal(t, codes.PermissionDenied, status.Code(err), err)
		})
	}
	for name, cmd := range map[string]*fsmpb.Command{
		"a report for another node":     {Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n2"}}},
		"a stage for another node":      {Body: &fsmpb.Command_StageVolume{StageVolume: &fsmpb.StageVolume{NodeId: "n2"}}},
		"a target for another node":     {Body: &fsmpb.Command_PublishTarget{PublishTarget: &fsmpb.PublishTarget{NodeId: "n2"}}},
		"a report with another's actor": {Actor: "node/n2", Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n2"}}},
		"an attachment of another node": {Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{NodeId: "n2"}}},
		"to be primary on another node": {Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{NodeId: "n2"}}},
		"another node's command":        {Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{NodeId: "n2"}}},
		"a command of no node":          {Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{}}},
		"to be forced primary":          {Body: &fsmpb.Command_ForcePrimary{ForcePrimary: &fsmpb.ForcePrimary{NodeId: "n1"}}},
		"one more replica":              {Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{NodeId: "n1"}}},
		"to give up its replica":        {Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{NodeId: "n1"}}},
		"that it is cordoned":           {Body: &fsmpb.Command_ScheduleNode{ScheduleNode: &fsmpb.ScheduleNode{NodeId: "n1"}}},
		"a report for nobody":           {Body: &fsmpb.Command_Report{Report: &fsmpb.Report{}}},
		"its own registration":          {Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}},
		"a volume's deletion":           {Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: volumeID}}},
		"its own loss":                  {Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1"}}},
		"its own adoption":              {Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{NodeId: "n1"}}},
		"nothing":                       {},
	} {
		t.Run("proposes "+name, func(t *testing.T) {
			before := len(l.log)
			client := sessionpb.NewSessionClient(l.dial(m.api.addr, node))
			for range 2 {
				_, err := client.Propose(t.Context(), &sessionpb.ProposeRequest{Command: cmd})
				require.Equal(t, codes.PermissionDenied, status.Code(err), err)
			}
			require.Len(t, l.log, before, "nothing came into the log")
		})
	}
}

func TestS20_TheActorIsTheOneThatWasVerified(t *testing.T) {
	l := newTestCluster(t, 1)
	client := sessionpb.NewSessionClient(l.dial(l.members[0].api.addr, l.credentials(pki.Node, "n1")))
	report := &fsmpb.Command{Actor: "admin/x", ProposedAt: 7, Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "h"}}}
	response, err := client.Propose(t.Context(), &sessionpb.ProposeRequest{Command: report})
	require.NoError(t, err)
	require.NotNil(t, response.GetOutcome().GetRejection(), "a decision travels in the outcome")
	last := l.log[len(l.log)-1]
	require.Equal(t, "node/n1", last.GetActor())
	require.Zero(t, last.GetProposedAt())
}

func TestS20_TelemetryOfOtherHostsPoolsIsDropped(t *testing.T) {
	ls := newLiveSession(t.Context(), register("n1"), 1)
	ls.setTelemetry(&sessionpb.Telemetry{Pools: []*sessionpb.PoolFacts{{Id: "pool-n2", Free: 1}, {Id: "pool-n1", Free: 2}}}, 9)
	facts := ls.facts()
	require.Positive(t, facts.GetQuietNanos())
	facts.QuietNanos = 0
	require.True(t, proto.Equal(&sessionpb.SessionFacts{
		NodeId: "n1", HostId: "host-n1", Index: 9,
		Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolFacts{{Id: "pool-n1", Free: 2}}},
	}, facts))
}

func TestCommandsOfANewerBuildOrMalformedAreRefused(t *testing.T) {
	own := func(c *fsmpb.Command) *fsmpb.Command {
		c.Body = &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1"}}
		return c
	}
	for name, tc := range map[string]struct {
		cmd  *fsmpb.Command
		want codes.Code
	}{
		"a schema version of a newer build": {own(&fsmpb.Command{SchemaVersion: fsm.MaxFeatureLevel + 1}), codes.FailedPrecondition},
		"a request id that is too short":    {own(&fsmpb.Command{RequestId: []byte("short")}), codes.InvalidArgument},
		"no command":                        {nil, codes.PermissionDenied},
		"its own report":                    {own(&fsmpb.Command{SchemaVersion: fsm.Level1, RequestId: make([]byte, 16)}), codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, status.Code(checkProposal("n1", tc.cmd)))
			}
		})
	}
}

func TestSessionsEndWhenTheControllerDoesNotServe(t *testing.T) {
	for name, tc := range map[string]struct {
		begin func(*testMember)
		want  codes.Code
	}{
		"its member knows no leader any more": {func(m *testMember) { err := errNoQuorum; m.ready.Store(&err) }, codes.Unavailable},
		"it shuts down":                       {func(m *testMember) { m.server.Close() }, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestCluster(t, 1)
			l.members[0].server.timing.peerTimeout = shortPeerTimeout
			node := l.credentials(pki.Node, "n1")
			w := l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")})
			w.nextVolumes()
			tc.begin(l.members[0])
			require.Equal(t, tc.want, status.Code(w.endError()))
			eventually(t, "the session is forgotten", func() bool { return l.members[0].server.Sessions() == 0 })
			require.Equal(t, tc.want, status.Code(l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")}).endError()))
		})
	}
}

func TestMalformedSessionStartsAreRefused(t *testing.T) {
	l := newTestCluster(t, 1)
	node := l.credentials(pki.Node, "n1")
	t.Run("without a hello", func(t *testing.T) {
		usual := l.members[0].server.timing.helloTimeout
		l.members[0].server.timing.helloTimeout = 50 * time.Millisecond
		defer func() { l.members[0].server.timing.helloTimeout = usual }()
		require.Equal(t, codes.DeadlineExceeded, status.Code(l.openSession(l.members[0], node, nil).endError()))
	})
	t.Run("with telemetry", func(t *testing.T) {
		w := l.openSession(l.members[0], node, nil)
		w.send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Telemetry{}})
		require.Equal(t, codes.InvalidArgument, status.Code(w.endError()))
	})
	t.Run("with a second hello of another host", func(t *testing.T) {
		other := register("n1")
		other.HostId = "host-other"
		for _, second := range []*fsmpb.RegisterNode{nil, other, register("n2")} {
			w := l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")})
			w.send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Hello{Hello: &sessionpb.Hello{Register: second}}})
			require.Equal(t, codes.InvalidArgument, status.Code(w.endError()))
		}
	})
	t.Run("without a quorum", func(t *testing.T) {
		l.members[0].server.timing.registerTimeout = 50 * time.Millisecond
		l.quorum.Store(false)
		require.Equal(t, codes.Unavailable, status.Code(l.openSession(l.members[0], node, &sessionpb.Hello{Register: register("n1")}).endError()))
	})
	t.Run("with the controllers' own service, on a listener that lets hosts in", func(t *testing.T) {
		client := sessionpb.NewPeersClient(l.dial(l.members[0].peers.addr, node))
		_, err := client.Facts(t.Context(), &sessionpb.FactsRequest{})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		stream, err := client.Inventory(t.Context(), &sessionpb.InventoryRequest{NodeId: "n1"})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.PermissionDenied, status.Code(err))
	})
}
