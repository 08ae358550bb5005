package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestAnOperatorsCallDecidesNothing(t *testing.T) {
	w := newWorld(t)
	before := w.contents()
	for _, actor := range []string{"controller/c1", "node/n1", "viewer/bob", "operator/ann"} {
		w.rejected(Forbidden, actor, &fsmpb.RecordOperatorCall{Call: "backup"})
	}
	w.twice("admin/ann", &fsmpb.RecordOperatorCall{Call: "members remove", Subject: "member c2"})
	w.rejected(Invalid, "admin/ann", &fsmpb.RecordOperatorCall{})
	w.rejected(Invalid, "admin/ann", &fsmpb.RecordOperatorCall{Call: "backup\n"})
	w.rejected(Invalid, "admin/ann", &fsmpb.RecordOperatorCall{Call: "backup", Subject: strings.Repeat("x", MaxReasonBytes+1)})
	require.Equal(t, before, w.contents())
	two := newWorldAt(t, Level2)
	two.rejected(Unsupported, "admin/ann", &fsmpb.RecordOperatorCall{Call: "backup"})
}

// A retry is one by its request id, whatever reason it gives.
func TestAReasonIsNoPartOfARetry(t *testing.T) {
	w := newWorld(t)
	cmd := envelope("admin/ann", "drain", w.index, &fsmpb.ScheduleNode{NodeId: "n1", HostId: "host-n1", Cordoned: true})
	cmd.Call = &fsmpb.OperatorCall{Reason: "a new disk", Plan: "drain n1", PlanDigest: bytesOf("plan", 32)}
	cmd.SchemaVersion = LeastLevel(cmd)
	require.Equal(t, Level3, cmd.GetSchemaVersion())
	first := w.applyEnvelope(cmd)
	require.NoError(t, Err(first))
	other := proto.CloneOf(cmd)
	other.Call.Reason = "another reason"
	for range 2 {
		require.True(t, proto.Equal(first, w.applyEnvelope(other)))
	}
	for _, bad := range []*fsmpb.OperatorCall{{Reason: "a\nb"}, {Plan: "\x1b"}, {PlanDigest: make([]byte, 65)}, {Reason: strings.Repeat("x", MaxReasonBytes+1)}} {
		refused := envelope("admin/ann", "refused", w.index, &fsmpb.ScheduleNode{NodeId: "n1", HostId: "host-n1"})
		refused.Call = bad
		refused.SchemaVersion = LeastLevel(refused)
		for range 2 {
			require.Equal(t, Invalid, reasonOf(w.applyEnvelope(refused)))
		}
	}
}
